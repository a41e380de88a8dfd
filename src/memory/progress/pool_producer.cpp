#include "memory/progress/pool_producer.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <mutex>
#include <utility>

#include "core/error.h"
#include "core/file/crc32c.h"
#include "core/log.h"
#include "memory/address/host_id.h"
#include "memory/progress/owning_member.h"
#include "memory/progress/producer_identity.h"
#include "memory/progress/progress_thread.h"

namespace tributary::memory {
class PoolProducer::Impl {
 public:
  explicit Impl(const PoolProducerOptions& options)
      : thread_([this](TimePoint now) { return turn(now); },
                [this](const std::string& what) { stop(End::kControllerLost, what); }) {
    join_pool(options.directory, options.patience, [&](const FoundPool& found, TimePoint deadline) {
      return join(found, options, deadline);
    });
    thread_.watch(member_->control.links().wake_fd());
    for (const Transport* engine : member_->engines()) thread_.watch(engine->wake_fd());
    thread_.start();
  }

  ~Impl() {
    thread_.run([this] { member_->control.close_all(CloseMode::kDrain); });
  }

  [[nodiscard]] ProducerTasks& tasks() { return tasks_; }

  bool finish(const Task& task, std::span<const std::byte> bytes, ObjectDescription description,
              const std::byte* on_device) {
    check_shape(bytes.size(), description);
    if (!tasks_.begin_to_write(task)) return false;
    description.bytes = bytes.size();
    description.crc32c = crc32c(bytes);
    description.has_crc = true;
    ProducerMemory::write(bytes, task.pages);
    description.is_on_device =
        on_device != nullptr && memory_->write_copy({on_device, bytes.size()}, task.pages);
    {
      const std::lock_guard lock(mutex_);
      ++counts_.objects;
      counts_.bytes += description.bytes;
    }
    end(task, description);
    return true;
  }

  void fail(const Task& task, std::string reason) {
    if (!tasks_.end(task)) return;  // it was cancelled
    if (end() == End::kNone)
      log_warning(str("memory: sample ", task.key.sample, " part ", task.key.part,
                      " was not encoded: ", reason));
    {
      const std::lock_guard lock(mutex_);
      ++counts_.failed;
    }
    post(EncodeFailed{.slot = task.slot, .reason = std::move(reason)});
  }

  void drop(const Task& task) { end(task, {}); }

  void ask(const Key& key, std::uint64_t step) {
    {
      const std::lock_guard lock(mutex_);
      if (step < low_ || !asked_.try_emplace(key, Asked{.step = step}).second) return;
    }
    post(ObjectAsked{.key = key, .step = step});
  }

  std::optional<PoolObject> take(const Key& key) {
    const std::lock_guard lock(mutex_);
    const auto found = asked_.find(key);
    if (found == asked_.end()) return std::nullopt;
    return std::exchange(found->second.object, std::nullopt);
  }

  [[nodiscard]] std::uint64_t low() const {
    const std::lock_guard lock(mutex_);
    return low_;
  }

  void leave() { post(LeaveAsked{}); }
  [[nodiscard]] bool has_left() const { return has_left_; }

  [[nodiscard]] End end() const {
    const std::lock_guard lock(mutex_);
    return end_;
  }
  [[nodiscard]] std::string end_reason() const {
    const std::lock_guard lock(mutex_);
    return reason_;
  }

  [[nodiscard]] PoolProducerCounts counts() {
    PoolProducerCounts counts;
    thread_.run([&] {
      const std::lock_guard lock(mutex_);
      counts = counts_;
      counts.process = member_->core.member().identity().process;
      counts.pages_used = member_->core.objects().arena().used_pages();
      counts.pages_total = member_->core.objects().arena().total_pages();
      counts.busy_seconds = seconds_of(tasks_.busy());
      counts.blocked_seconds = seconds_of(blocked_);
    });
    return counts;
  }

 private:
  struct Asked {
    std::uint64_t step = 0;
    std::optional<PoolObject> object = {};
  };

  /// On the caller's thread, which makes the turns meanwhile.
  Result<bool> join(const FoundPool& found, const PoolProducerOptions& options,
                    TimePoint deadline) {
    if (auto fault = find_fault(options, found.job)) {
      // What is found may be what a killed controller left: the next one may fit.
      if (has_listener(found.job.endpoint, deadline - steady_now())) return *std::move(fault);
      return Refusal{"connect", str("memory: the controller is gone (", found.job.endpoint, ")")};
    }
    const std::uint64_t page = found.job.page_bytes;
    const SegmentLayout layout{.bytes = options.capacity_bytes / page * page,
                               .page_bytes = static_cast<std::uint32_t>(page)};
    member_.reset();
    if (!memory_ || memory_->segment().layout() != layout) memory_.emplace(layout, options.device);
    has_ended_ = false;
    end_ = End::kNone;
    tasks_.open();
    const std::uint16_t process = options.process.value_or(draw_process(found.job));
    const std::uint32_t incarnation = incarnation_now();
    member_ = std::make_unique<OwningMember>(found, options, *memory_, process, incarnation);
    const SegmentRow row{.tier = Tier::kDram,
                         .process = process,
                         .length = layout.bytes,
                         .page_bytes = layout.page_bytes,
                         .incarnation = incarnation,
                         .host_id = read_host_id(),
                         .keys = listen(options, found, str("p", process))};
    if (const auto begun = member_->control.connect(found.job, deadline); !begun) return begun;
    member_->control.send(kControllerProcess, JoinMessage{.rows = {row}});
    const auto is_in = [&] { return member_->core.member().identity().epoch != 0; };
    while (!is_in() && end_ == End::kNone && steady_now() < deadline)
      if (!turn(steady_now())) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (is_in()) return true;
    const bool is_key = member_->control.links().refusals().of("key") > 0;
    return Refusal{is_key ? "key" : "controller",
                   str(end_ == End::kNone ? "memory: the controller does not answer" : reason_,
                       " (", found.job.endpoint, ")")};
  }

  /// Offers the memory to readers, by each engine that may be used.
  [[nodiscard]] std::vector<TransportKey> listen(const PoolProducerOptions& options,
                                                 const FoundPool& found, const std::string& name) {
    const std::string& host = member_->reading.host;
    std::vector<TransportKey> keys;
    for (const Engine engine : options.engines) {
      if (engine == Engine::kMemfd || engine == Engine::kCudaMap) {
        share_memory(engine, options, name, keys);
        continue;
      }
      TcpListener listener = listen_on({.host = host, .port = 0}, options.allow_public);
      keys.push_back(endpoint_key(engine, listener.endpoint));
      if (engine == Engine::kUcx) {
        member_->ucx = require_ucx(member_->end, found.key, host);
        member_->ucx->listen(std::move(listener));
      } else {
        member_->tcp.listen(std::move(listener));
      }
    }
    return keys;
  }

  void share_memory(Engine engine, const PoolProducerOptions& options, const std::string& name,
                    std::vector<TransportKey>& keys) {
    try {
      const std::string sockets = socket_directory_of(options.directory);
      const SealedSegment& segment = memory_->segment();
      keys.push_back(engine == Engine::kMemfd
                         ? member_->memfd.share(segment, nullptr, sockets, name)
                         : member_->cuda->share(segment, memory_->copy(), sockets, name + "d"));
    } catch (const Error& error) {
      if (engine == Engine::kCudaMap) throw;  // it was asked for
      log_note(str("memory: readers of this host have no shared memory: ", error.what()));
    }
  }

  bool turn(TimePoint now) {
    if (is_blocked_) blocked_ = blocked_ + (now - last_turn_);
    last_turn_ = now;
    bool had_work = member_->control.poll(now, [this](const Event& event) { take(event); });
    for (Transport* engine : member_->engines()) {
      std::array<Completion, 64> events;  // links of readers, which have nothing to say
      had_work |= engine->poll(events, now) > 0;
    }
    if (member_->asked)
      had_work |= member_->asked->poll(
          now, [this](const GetDone& done, PoolObject object) { take(done, std::move(object)); });
    perform_all(member_->objects.take_actions());
    if (now >= next_tick_) {
      next_tick_ = now + ProgressThread::kTick;
      tell_times();
      give(Tick{});
    }
    is_blocked_ = !has_ended_ && member_->core.is_blocked();
    has_left_ = member_->core.has_left();
    return had_work;
  }

  void tell_times() {
    const auto ms_of = [](Nanoseconds time) {
      return static_cast<std::uint32_t>(time.count / 1'000'000);
    };
    member_->core.tell_times(ms_of(tasks_.busy()), ms_of(blocked_));
  }

  void take(const Event& event) {
    if (has_ended_) return;
    const auto* message = std::get_if<MessageReceived>(&event);
    if (std::holds_alternative<MemberLost>(event))
      return stop(End::kControllerLost,
                  str("memory: the controller is lost: ", member_->control.last_reason()));
    if (message != nullptr && std::holds_alternative<ByeMessage>(message->message))
      return stop(End::kFinished, "memory: the run is over");
    give(event);
  }

  void take(const GetDone& done, PoolObject object) {
    give(done);
    if (done.status != Status::kOk) return;
    {
      const std::lock_guard lock(mutex_);
      const auto found = asked_.find(object.fields.key);
      if (found == asked_.end()) return;  // its step is over
      found->second.object = std::move(object);
    }
    tasks_.wake();
  }

  void forget_before(std::uint64_t step) {
    const std::lock_guard lock(mutex_);
    if (std::exchange(low_, step) == step) return;
    std::erase_if(asked_, [step](const auto& each) { return each.second.step < step; });
  }

  void give(const Event& event) {
    if (has_ended_) return;
    perform_all(member_->objects.take_actions());  // of earlier events: an Encode before its cancel
    const std::uint32_t before = member_->core.member().identity().epoch;
    const std::vector<Action> actions = member_->core.step(event, steady_now());
    const std::uint32_t epoch = member_->core.member().identity().epoch;
    if (epoch != before) member_->begin_epoch(epoch);
    forget_before(member_->core.low());
    const auto* message = std::get_if<MessageReceived>(&event);
    if (message != nullptr && std::holds_alternative<EpochMessage>(message->message) &&
        member_->asked)
      member_->asked->close_old(member_->core.member().table().table());
    perform_all(actions);
  }

  void perform_all(const std::vector<Action>& actions) {
    for (const Action& action : actions)
      std::visit([this](const auto& one) { perform(one); }, action);
  }
  template <class Other>
  void perform(const Other&) {}  // those of other cores
  void perform(const Send& action) { member_->control.send(action.to, action.message); }
  void perform(const Encode& action) {
    tasks_.add({.slot = action.slot,
                .key = action.key,
                .step = member_->core.objects().slot(action.slot).step,
                .pages = memory_->pages_of(action.runs)});
  }
  void perform(const CancelEncode& action) {
    if (tasks_.cancel(action.slot)) post(EncodeCancelled{.slot = action.slot});
  }
  void perform(const StartGet& action) {
    if (!member_->asked)
      for (const int descriptor : member_->open_asked().links().wake_fds())
        thread_.watch(descriptor);
    member_->asked->start(action, member_->core.member().table().table(), steady_now());
  }
  void perform(const ClosePeer& action) {
    if (action.process == kControllerProcess) stop(End::kControllerLost, action.reason);
  }
  void perform(const StopProcess& action) {
    stop(action.code == ExitCode::kFenced ? End::kFenced : End::kControllerLost, action.reason);
  }

  void stop(End end, const std::string& reason) {
    if (std::exchange(has_ended_, true)) return;
    member_->control.close_all(CloseMode::kForce);
    {
      const std::lock_guard lock(mutex_);
      end_ = end;
      reason_ = reason;
    }
    tasks_.close();
  }

  void end(const Task& task, const ObjectDescription& description) {
    if (tasks_.end(task)) post(Encoded{.slot = task.slot, .description = description});
  }

  void post(Event event) {
    thread_.post([this, event = std::move(event)] { give(event); });
  }

  static void check_shape(std::uint64_t bytes, const ObjectDescription& description) {
    WireHandle fields{.bytes = bytes, .dtype = static_cast<std::uint8_t>(description.dtype)};
    fields.dims = static_cast<std::uint8_t>(std::min(description.shape.size(), kMaxDims));
    std::ranges::copy(description.shape.begin(), description.shape.begin() + fields.dims,
                      fields.shape);
    TRIB_CHECK(description.shape.size() <= kMaxDims && is_shape_of(fields),
               .what = "memory: shape and dtype do not make the bytes of an object",
               .found = str(description.shape.size(), " dims, ", bytes, " B"));
  }

  std::optional<ProducerMemory> memory_;  // the same from the start of the progress thread on
  // That thread alone uses these, once it has started.
  std::unique_ptr<OwningMember> member_;
  bool has_ended_ = false, is_blocked_ = false;
  Nanoseconds blocked_{};
  TimePoint last_turn_{}, next_tick_{};
  std::atomic<bool> has_left_ = false;

  ProducerTasks tasks_;
  mutable std::mutex mutex_;    // guards what follows
  std::map<Key, Asked> asked_;  // of steps from low_ on
  std::uint64_t low_ = 0;
  End end_ = End::kNone;
  std::string reason_;
  PoolProducerCounts counts_;

  ProgressThread thread_;  // last: it ends before what it uses
};

PoolProducer::PoolProducer(const PoolProducerOptions& options)
    : impl_(std::make_unique<Impl>(options)) {}
PoolProducer::~PoolProducer() = default;
std::optional<PoolProducer::Task> PoolProducer::next(Nanoseconds patience) {
  return impl_->tasks().next(patience);
}
bool PoolProducer::finish(const Task& task, std::span<const std::byte> bytes,
                          const ObjectDescription& description, const std::byte* on_device) {
  return impl_->finish(task, bytes, description, on_device);
}
void PoolProducer::fail(const Task& task, std::string reason) {
  impl_->fail(task, std::move(reason));
}
void PoolProducer::drop(const Task& task) { impl_->drop(task); }
bool PoolProducer::is_cancelled(const Task& task) const {
  return impl_->tasks().is_cancelled(task);
}
void PoolProducer::ask(const Key& key, std::uint64_t step) { impl_->ask(key, step); }
std::optional<PoolObject> PoolProducer::take(const Key& key) { return impl_->take(key); }
std::uint64_t PoolProducer::low() const { return impl_->low(); }
void PoolProducer::leave() { impl_->leave(); }
bool PoolProducer::has_left() const { return impl_->has_left(); }
PoolProducer::End PoolProducer::end() const { return impl_->end(); }
std::string PoolProducer::end_reason() const { return impl_->end_reason(); }
PoolProducerCounts PoolProducer::counts() const { return impl_->counts(); }

}  // namespace tributary::memory
