#include "memory/progress/pool_reader.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <set>
#include <utility>

#include "core/error.h"
#include "core/log.h"
#include "core/stopwatch.h"
#include "memory/address/host_id.h"
#include "memory/progress/control_links.h"
#include "memory/progress/progress_thread.h"
#include "memory/protocol/reader_core.h"
#include "memory/transport/socket/tcp_socket.h"

namespace tributary::memory {
namespace {

/// What a reader is in one job.
struct ReadingMember {
  ReadingMember(const FoundPool& found, const PoolReaderOptions& options)
      : ReadingMember(found, options,
                      static_cast<std::uint16_t>(kFirstConsumer + options.consumer)) {}
  ReadingMember(const FoundPool& found, const PoolReaderOptions& options, std::uint16_t process)
      : end{.self = found.job.member(Role::kConsumer, process, kFirstIncarnation),
            .epoch = kFirstEpoch},
        control(end, found.key),
        objects({.process = process, .host_id = read_host_id()},
                open_engines(end, found.key,
                             {.engines = options.engines,
                              .copy_threads = options.copy_threads,
                              .host = local_host_towards(found.job.endpoint),
                              .device = options.device}),
                options.device),
        core({.identity = {.process = process,
                           .controller = kControllerProcess,
                           .incarnation = kFirstIncarnation,
                           .epoch = kFirstEpoch},
              .timers = found.job.timers,
              .dp_rank = options.consumer,
              .first_step = options.first_step,
              .ahead = options.ahead,
              .gets = options.gets},
             PageTable{}) {}

  LinkEnd end;
  ControlLinks control;
  ObjectGets objects;
  ReaderCore core;
};

}  // namespace

class PoolReader::Impl {
 public:
  explicit Impl(const PoolReaderOptions& options)
      : thread_([this](TimePoint now) { return turn(now); },
                [this](const std::string& what) { stop(what); }) {
    join_pool(options.directory, options.patience, [&](const FoundPool& found, TimePoint deadline) {
      return join(found, options, deadline);
    });
    thread_.watch(member_->control.links().wake_fd());
    for (const int descriptor : member_->objects.links().wake_fds()) thread_.watch(descriptor);
    thread_.start();
  }

  ~Impl() {
    thread_.run([this] { member_->control.close_all(CloseMode::kDrain); });
  }

  std::optional<PoolObject> take(const Key& key, Nanoseconds patience) {
    std::unique_lock lock(mutex_);
    const Stopwatch waited;
    changed_.wait_for(lock, wait_of(patience), [&] {
      return arrived_.contains(key) || given_up_.contains(key) || counts_.producers == 0 ||
             !counts_.stopped.empty();
    });
    counts_.waited_seconds += waited.seconds();
    const auto found = arrived_.find(key);
    std::optional<PoolObject> object;
    if (found != arrived_.end()) object = std::exchange(found->second, std::nullopt);
    if (object && object->fields.bytes == 0) {
      ++counts_.empty;
      object.reset();
    }
    counts_.missed += object ? 0U : 1U;
    counts_.objects += object ? 1U : 0U;
    counts_.bytes += object ? object->fields.bytes : 0;
    return object;
  }

  [[nodiscard]] bool has_producers() {
    const std::lock_guard lock(mutex_);
    return counts_.producers > 0 && counts_.stopped.empty();
  }

  [[nodiscard]] ObjectOutlook outlook(const Key& key) {
    const std::lock_guard lock(mutex_);
    ObjectOutlook outlook;
    if (const auto sealed = sealed_.find(key); sealed != sealed_.end()) {
      if (sealed->second.bytes == 0) return outlook;  // it cannot be made
      outlook.tokens = sealed->second.tokens;
    }
    const bool nobody = counts_.producers == 0 || !counts_.stopped.empty();
    outlook.may_come = arrived_.contains(key) || !(nobody || given_up_.contains(key));
    return outlook;
  }

  void finish_step(std::uint64_t step) {
    thread_.post([this, step] {
      give(StepFinished{step});
      const std::lock_guard lock(mutex_);
      std::erase_if(given_up_, [this](const Key& key) { return !member_->core.wants(key); });
      std::erase_if(sealed_,
                    [this](const auto& entry) { return !member_->core.wants(entry.first); });
      std::erase_if(arrived_,
                    [this](const auto& entry) { return !member_->core.has_gathered(entry.first); });
    });
  }

  [[nodiscard]] PoolReaderCounts counts() {
    PoolReaderCounts counts;
    thread_.run([&] {
      const std::lock_guard lock(mutex_);
      counts = counts_;
      counts.engines = member_->objects.links().engines();
      for (const auto& [key, object] : arrived_) counts.gathered += object ? 1U : 0U;
    });
    return counts;
  }

 private:
  /// On the caller's thread, which makes the turns meanwhile.
  Result<bool> join(const FoundPool& found, const PoolReaderOptions& options, TimePoint deadline) {
    // What is found may be what a killed controller left: the next one may fit.
    if (options.consumer >= found.job.consumers)
      return Refusal{"consumer", str("memory: the pool has ", found.job.consumers,
                                     " readers, and this is number ", options.consumer)};
    if (options.first_step != found.job.first_step)
      return Refusal{"step", str("memory: the pool begins at step ", found.job.first_step,
                                 ", and its reader at step ", options.first_step)};
    member_ = std::make_unique<ReadingMember>(found, options);
    is_heard_ = has_stopped_ = false;
    first_lender_ = found.job.first_lender();
    counts_.stopped.clear();
    if (const auto begun = member_->control.connect(found.job, deadline); !begun) return begun;
    while (!is_heard_ && !has_stopped_ && steady_now() < deadline)
      if (!turn(steady_now())) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (has_stopped_) return Refusal{"controller", counts_.stopped};
    if (!is_heard_) return Refusal{"controller", "memory: the controller does not answer"};
    return true;
  }

  bool turn(TimePoint now) {
    bool had_work = member_->control.poll(now, [this](const Event& event) { take(event); });
    if (now >= next_tick_) {
      next_tick_ = now + ProgressThread::kTick;
      give(Tick{});
    }
    had_work |= member_->objects.poll(
        now, [this](const GetDone& done, PoolObject object) { take(done, std::move(object)); });
    return had_work;
  }

  void take(const Event& event) {
    if (has_stopped_) return;
    const auto* message = std::get_if<MessageReceived>(&event);
    if (std::holds_alternative<MemberLost>(event))
      return stop(str("memory: the controller is lost: ", member_->control.last_reason()));
    if (message != nullptr && std::holds_alternative<ByeMessage>(message->message))
      return stop("memory: the run is over");
    is_heard_ = true;
    give(event);
  }

  void take(const GetDone& done, PoolObject object) {
    give(done);
    const Key key = object.fields.key;
    const std::lock_guard lock(mutex_);
    if (done.status != Status::kOk) ++counts_.failed_gets;
    // A step that is finished meanwhile needs nothing.
    if (done.status != Status::kOk || !member_->core.has_gathered(key)) return;
    arrived_.try_emplace(key, std::move(object));
    changed_.notify_all();
  }

  void give(const Event& event) {
    if (has_stopped_) return;
    const std::vector<Action> actions = member_->core.step(event, steady_now());
    const auto* message = std::get_if<MessageReceived>(&event);
    if (message != nullptr) take_outlook(message->message);
    for (const Action& action : actions)
      std::visit([this](const auto& one) { perform(one); }, action);
  }

  /// Takes what a message says about the objects that may still come.
  void take_outlook(const Message& message) {
    if (std::holds_alternative<EpochMessage>(message)) take_table();
    const std::lock_guard lock(mutex_);
    if (const auto* publish = std::get_if<PublishMessage>(&message)) {
      const WireHandle& fields = publish->handle.fields;
      given_up_.erase(fields.key);
      if (member_->core.wants(fields.key)) sealed_[fields.key] = fields;
    }
    const auto* retract = std::get_if<RetractMessage>(&message);
    if (retract == nullptr || !member_->core.wants(retract->key)) return;
    given_up_.insert(retract->key);
    changed_.notify_all();
  }

  void take_table() {
    const PageTable& table = member_->core.member().table().table();
    member_->objects.close_old(table);
    const std::lock_guard lock(mutex_);
    counts_.producers = static_cast<std::uint64_t>(std::ranges::count_if(
        table.rows(), [this](const SegmentRow& row) { return row.process < first_lender_; }));
    changed_.notify_all();
  }

  template <class Other>
  void perform(const Other&) {}  // those of other cores; microbatches are taken object by object
  void perform(const Send& action) { member_->control.send(action.to, action.message); }
  void perform(const StartGet& action) {
    member_->objects.start(action, member_->core.member().table().table(), steady_now());
  }
  void perform(const StopProcess& action) { stop(action.reason); }

  void stop(const std::string& reason) {
    has_stopped_ = true;
    member_->control.close_all(CloseMode::kForce);
    const std::lock_guard lock(mutex_);
    if (counts_.stopped.empty()) counts_.stopped = reason;
    changed_.notify_all();
  }

  // The progress thread alone uses these, once it has started.
  std::unique_ptr<ReadingMember> member_;
  bool is_heard_ = false, has_stopped_ = false;
  std::uint32_t first_lender_ = 0;
  TimePoint next_tick_{};

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::map<Key, std::optional<PoolObject>> arrived_;  // of unfinished steps; null: taken
  std::set<Key> given_up_;                            // no producer has room for them
  std::map<Key, WireHandle> sealed_;                  // as they were last published
  PoolReaderCounts counts_;

  ProgressThread thread_;  // last: it ends before what it uses
};

PoolReader::PoolReader(const PoolReaderOptions& options) : impl_(std::make_unique<Impl>(options)) {}
PoolReader::~PoolReader() = default;
std::optional<PoolObject> PoolReader::take(const Key& key, Nanoseconds patience) {
  return impl_->take(key, patience);
}
bool PoolReader::has_producers() const { return impl_->has_producers(); }
ObjectOutlook PoolReader::outlook(const Key& key) const { return impl_->outlook(key); }
void PoolReader::finish_step(std::uint64_t step) { impl_->finish_step(step); }
PoolReaderCounts PoolReader::counts() const { return impl_->counts(); }

}  // namespace tributary::memory
