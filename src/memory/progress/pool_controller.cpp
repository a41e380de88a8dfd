#include "memory/progress/pool_controller.h"

#include <algorithm>
#include <atomic>
#include <deque>
#include <utility>

#include "core/error.h"
#include "core/log.h"
#include "memory/progress/control_links.h"
#include "memory/progress/pool_directory.h"
#include "memory/progress/process_probes.h"
#include "memory/progress/progress_thread.h"
#include "memory/protocol/controller_core.h"
#include "memory/transport/socket/tcp_socket.h"
#include "memory/transport/socket/unix_socket.h"
#include "memory/transport/tcp.h"

namespace tributary::memory {
namespace {

constexpr std::uint64_t kPageAlignment = 4096;
constexpr std::size_t kPlanBytes = 24;  // of PLAN, a microbatch or ASSIGN beside the keys, at most
constexpr Nanoseconds kTimeToSayBye{200'000'000};

PoolJob job_with(const PoolControllerOptions& options) {
  TRIB_REQUIRE(
      options.consumers > 0 && options.consumers <= kMaxConsumers && options.window > 0 &&
          options.reserve_pages > 0 && options.page_bytes > 0 &&
          options.page_bytes % kPageAlignment == 0,
      .what = "memory: a pool has no readers, no steps or no pages",
      .found =
          str("consumers = ", options.consumers, ", window = ", options.window,
              ", reserve_pages = ", options.reserve_pages, ", page_bytes = ", options.page_bytes),
      .expected = "numbers above 0, at most 30,000 readers, and pages that are multiples of 4 KiB");
  PoolJob job{.consumers = options.consumers,
              .first_step = options.first_step,
              .window = options.window,
              .page_bytes = options.page_bytes,
              .reserve_pages = options.reserve_pages,
              .timers = options.timers};
  const Nonce drawn = draw_nonce();
  for (std::size_t i = 0; i < job.id.size(); ++i)
    job.id[i] = std::to_integer<std::uint8_t>(drawn[i]);
  return job;
}

ControllerConfig config_of(const PoolControllerOptions& options) {
  ControllerConfig config{.process = kControllerProcess,
                          .timers = options.timers,
                          .reserve_pages = options.reserve_pages,
                          .window = options.window,
                          .first_step = options.first_step,
                          .first_lender = lender_process(options.consumers, 0)};
  for (std::uint32_t i = 0; i < options.consumers; ++i) {
    const auto process = static_cast<std::uint16_t>(kFirstConsumer + i);
    config.consumers.push_back(process);
    config.members.push_back({.rank = process,
                              .role = Role::kConsumer,
                              .process = process,
                              .incarnation = kFirstIncarnation,
                              .epoch = kFirstEpoch});
  }
  return config;
}

}  // namespace

class PoolController::Impl {
 public:
  explicit Impl(const PoolControllerOptions& options)
      : directory_(options.directory),
        job_(job_with(options)),
        links_({.self = job_.member(Role::kController, kControllerProcess, kFirstIncarnation),
                .epoch = kFirstEpoch},
               write_pool_key(directory_)),
        core_(config_of(options), PageTable{}, steady_now()),
        low_(options.first_step),
        thread_([this](TimePoint now) { return turn(now); },
                [this](const std::string& what) { stop(what); }) {
    listen(options);
    publish_controller(directory_, job_);
    thread_.watch(links_.links().wake_fd());
    thread_.start();
  }

  ~Impl() {
    withdraw_controller(directory_, job_);
    if (!finished_) return;
    const TimePoint deadline = steady_now() + kTimeToSayBye;
    bool has_links = true;
    while (has_links && steady_now() < deadline) {
      thread_.run([&] { has_links = links_.has_links(); });
      if (has_links) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  void plan(StepPlanned step) {
    // One producer may be assigned everything, and each reader is told its own part.
    std::map<std::uint32_t, std::size_t> keys;
    for (const PlannedMicrobatch& microbatch : step.plan.microbatches)
      keys[microbatch.dp_rank] += sizeof(Key) * microbatch.keys.size() + kPlanBytes;
    std::size_t bytes = sizeof(AssignedObject) * step.objects.size() + kPlanBytes;
    for (const auto& [rank, its_bytes] : keys) bytes = std::max(bytes, its_bytes + kPlanBytes);
    TRIB_REQUIRE(bytes <= kMaxMessageBytes,
                 .what = "memory: a step has too many objects for a message",
                 .where = str("step ", step.plan.step),
                 .found = str(step.objects.size(), " objects, ", bytes, " B"),
                 .expected = str("at most ", kMaxMessageBytes, " B"), .fix = "take smaller steps");
    thread_.post([this, step = std::move(step)] { give(step); });
  }

  [[nodiscard]] std::uint64_t low() const { return low_; }

  [[nodiscard]] std::vector<Key> made() {
    std::vector<Key> made;
    thread_.run([&] {
      for (const auto& [key, record] : core_.objects().records())
        if (record.handle) made.push_back(key);
    });
    return made;
  }

  void finish() {
    withdraw_controller(directory_, job_);
    thread_.run([this] {
      finished_ = true;
      links_.refuse_newcomers();
      links_.close_all(CloseMode::kDrain);
    });
  }

  [[nodiscard]] PoolCounts counts() {
    PoolCounts counts;
    thread_.run([&] { counts = counts_now(); });
    return counts;
  }

 private:
  void listen(const PoolControllerOptions& options) {
    TcpListener listener =
        listen_on({.host = host_of_interface(options.bind)}, options.allow_public);
    job_.endpoint = text_of(listener.endpoint);
    links_.links().listen(std::move(listener.socket));
    try {
      const std::string sockets = socket_directory_of(directory_);
      links_.links().listen(listen_in_private_directory(sockets, "controller"));
      job_.unix_socket = str(sockets, "/controller");
    } catch (const Error& error) {
      log_note(str("memory: the pool is reached over TCP alone: ", error.what()));
    }
  }

  bool turn(TimePoint now) {
    present_ = present_ +
               Nanoseconds{(now - last_turn_).count * static_cast<std::int64_t>(producers_.size())};
    last_turn_ = now;
    const bool had_work = links_.poll(now, [this](const Event& event) { take(event); });
    probes_.poll(now, [this](const MemberLost& lost) { take(lost); });
    if (now >= next_tick_ && !finished_) {
      next_tick_ = now + ProgressThread::kTick;
      give(Tick{});
    }
    return had_work;
  }

  void take(const Event& event) {
    if (finished_) return;
    if (const auto* broken = std::get_if<LinkBroken>(&event)) return probe(*broken);
    const auto* message = std::get_if<MessageReceived>(&event);
    if (message != nullptr && !may_join(*message)) return;
    const auto* fail = message == nullptr ? nullptr : std::get_if<FailMessage>(&message->message);
    if (fail != nullptr) log_warning(fail->text);
    const bool says_bye =
        message != nullptr && std::holds_alternative<ByeMessage>(message->message);
    const bool is_rank = message != nullptr && (message->from.role == Role::kConsumer ||
                                                message->from.process >= job_.first_lender());
    if (!says_bye || is_rank) return give(event);
    // It may leave before it has said anything under its epoch.
    leaving_ = message->from.process;
    give(MemberLost{message->from.process, message->from.incarnation});
    leaving_.reset();
  }

  /// The link of a process that has ended may look as one that the network broke.
  void probe(const LinkBroken& link) {
    const MemberRecord* member = core_.membership().find(link.process);
    if (member == nullptr || !member->is_in()) return;
    for (const SegmentRow& row : member->rows)
      for (const Engine engine : {Engine::kTcp, Engine::kUcx})
        if (const std::string endpoint = endpoint_in(row, engine); !endpoint.empty())
          return probes_.start(link, endpoint, steady_now());
  }

  /// Whether it is no JOIN, or one with memory that objects of this job fit into.
  [[nodiscard]] bool may_join(const MessageReceived& event) {
    const auto* join = std::get_if<JoinMessage>(&event.message);
    if (join == nullptr) return true;
    const bool fits = std::ranges::all_of(join->rows, [this](const SegmentRow& row) {
      return row.page_bytes == job_.page_bytes && row.tier == Tier::kDram;
    });
    if (!fits) perform(ClosePeer{.process = event.from.process, .reason = "memory: other pages"});
    return fits;
  }

  void give(const Event& event) {
    if (!stopped_.empty()) return;
    std::deque<Event> events{event};
    while (!events.empty()) {
      for (const Action& action : core_.step(events.front(), steady_now())) {
        // Plans are functions of the data: they are on no disk.
        if (const auto* log = std::get_if<LogPlan>(&action))
          events.emplace_back(PlanLogged{log->plan.step});
        std::visit([this](const auto& one) { perform(one); }, action);
      }
      events.pop_front();
    }
    low_ = core_.low();
    count_members();
  }

  template <class Other>
  void perform(const Other&) {}  // those of other cores, and what low() tells
  void perform(const Send& action) { links_.send(action.to, action.message); }
  void perform(const ClosePeer& action) {
    log_note(str("memory: process ", action.process, " is let go: ", action.reason));
    links_.close(action.process, CloseMode::kForce);
  }
  void perform(const StopProcess& action) { stop(action.reason); }

  void stop(const std::string& reason) {
    if (!stopped_.empty()) return;
    stopped_ = reason.empty() ? "memory: a member failed" : reason;
    log_warning(str("the pool has stopped: ", stopped_));
    withdraw_controller(directory_, job_);
  }

  void count_members() {
    if (core_.membership().newest_epoch() ==
        std::exchange(counted_epoch_, core_.membership().newest_epoch()))
      return;
    std::map<std::uint16_t, std::uint32_t> now;
    for (const auto& [process, member] : core_.membership().members())
      if (member.is_in() && member.identity.role == Role::kProducer &&
          process < job_.first_lender())
        now[process] = member.identity.epoch;
    for (const auto& [process, epoch] : producers_) {
      if (now.contains(process)) continue;
      add_times(process, gone_);
      const bool leaves = leaving_ == process;
      ++(leaves ? left_ : fenced_);
      log_note(
          str("memory: producer ", process, leaves ? " has left" : " is lost to", " the pool"));
    }
    for (const auto& [process, epoch] : now) {
      if (producers_.contains(process)) continue;
      ++joined_;
      log_note(str("memory: producer ", process, " has joined the pool"));
    }
    producers_ = std::move(now);
  }

  /// What a producer has told of its work.
  void add_times(std::uint16_t process, PoolCounts& counts) const {
    const MemberRecord* member = core_.membership().find(process);
    if (member == nullptr) return;
    counts.made += member->made;
    counts.busy_seconds += member->busy_ms / 1e3;
    counts.blocked_seconds += member->blocked_ms / 1e3;
  }

  [[nodiscard]] PoolCounts counts_now() {
    PoolCounts counts{.producers = producers_.size(),
                      .joined = joined_,
                      .left = left_,
                      .fenced = fenced_,
                      .made = gone_.made,
                      .producer_seconds = seconds_of(present_),
                      .busy_seconds = gone_.busy_seconds,
                      .blocked_seconds = gone_.blocked_seconds,
                      .refused = core_.refused(),
                      .refusals = links_.links().refusals().by_code(),
                      .reopened = links_.reopened(),
                      .stopped = stopped_};
    for (const auto& [process, epoch] : producers_) {
      add_times(process, counts);
      for (const SegmentRow& row : core_.membership().find(process)->rows)
        counts.pages_total += row.length / row.page_bytes;
    }
    for (const auto& [key, record] : core_.objects().records()) {
      ++(record.handle ? counts.objects_made : counts.objects_open);
      if (record.handle && !record.lender) counts.pages_used += record.pages;
      if (!record.owner && !producers_.empty() && record.step < core_.low() + job_.window)
        ++counts.unassigned;
    }
    return counts;
  }

  std::string directory_;
  PoolJob job_;
  ControlLinks links_;
  ControllerCore core_;
  ProcessProbes probes_;
  std::atomic<std::uint64_t> low_;
  std::map<std::uint16_t, std::uint32_t> producers_;  // epochs of the live ones
  std::uint32_t counted_epoch_ = 0;
  std::optional<std::uint16_t> leaving_;
  std::uint64_t joined_ = 0, left_ = 0, fenced_ = 0;
  PoolCounts gone_;        // the work of producers that are not in any more
  Nanoseconds present_{};  // of all producers
  TimePoint last_turn_ = steady_now();
  std::atomic<bool> finished_ = false;
  std::string stopped_;
  TimePoint next_tick_{};
  ProgressThread thread_;  // last: it ends before what it uses
};

PoolController::PoolController(const PoolControllerOptions& options)
    : impl_(std::make_unique<Impl>(options)) {}
PoolController::~PoolController() = default;
void PoolController::plan(StepPlanned step) { impl_->plan(std::move(step)); }
std::uint64_t PoolController::low() const { return impl_->low(); }
std::vector<Key> PoolController::made() const { return impl_->made(); }
void PoolController::finish() { impl_->finish(); }
PoolCounts PoolController::counts() const { return impl_->counts(); }

}  // namespace tributary::memory
