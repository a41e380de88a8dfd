// What a large step costs beside its objects' bytes: the cores of a whole job, driven directly.
// Messages arrive at once and in order; a step is made within a hundred ticks, and each reader
// finishes it when it has all. CPU time is that of a core's steps, added up over the processes of
// its role; `wire_us` that of writing and reading messages. These are per object of a step, and do
// not grow with the step where nothing is quadratic. `longest_ms` is the longest event of the
// controller, which hears nobody meanwhile.

#include <algorithm>
#include <atomic>
#include <benchmark/benchmark.h>
#include <cstdlib>
#include <ctime>
#include <deque>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "memory/protocol/controller_core.h"
#include "memory/protocol/owner_core.h"
#include "memory/protocol/reader_core.h"
#include "memory/wire/parts.h"

namespace tributary::memory {
namespace {

constexpr std::uint32_t kPageBytes = 64 << 10;
constexpr std::uint32_t kMaxPages = 8;  // of an object
constexpr std::uint32_t kKeysOfMicrobatch = 8;
constexpr std::uint64_t kTicks = 100;  // of a step
constexpr std::uint64_t kSteps = 3;    // that are measured, behind the first ones
constexpr Nanoseconds kTick{10'000'000};

double cpu_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
}

struct JobSize {
  std::uint64_t objects = 0;  // of a step
  std::uint64_t ahead = 0;    // steps that may be made at a time
  std::uint16_t owners = 0, readers = 0;
};

std::uint32_t pages_of(std::uint64_t sample) {
  return 1 + static_cast<std::uint32_t>(sample * 7 % kMaxPages);
}

StepPlanned plan_of(const JobSize& size, std::uint64_t step) {
  StepPlanned planned{.plan = {.step = step}};
  std::vector<std::uint32_t> orders(size.readers);
  for (std::uint64_t i = 0; i < size.objects; ++i) {
    const Key key{.sample = step * size.objects + i};
    if (i % kKeysOfMicrobatch == 0) {
      const auto reader = static_cast<std::uint32_t>(i / kKeysOfMicrobatch % size.readers);
      planned.plan.microbatches.push_back({.dp_rank = reader, .order = orders[reader]++});
    }
    planned.plan.microbatches.back().keys.push_back(key);
    planned.objects.push_back({.key = key, .pages = pages_of(key.sample)});
  }
  return planned;
}

/// The controller is process 0, then come readers and owners, as in a run.
class Job {
 public:
  explicit Job(const JobSize& size) : size_(size) {
    const std::uint64_t share = size.objects * (kMaxPages + 1) / 2 / size.owners + 1;
    const auto pages =
        static_cast<std::uint32_t>(2 * kMaxPages + share * (size.ahead + 1) * 10 / 9 + share);
    ControllerConfig config{.timers = {}, .reserve_pages = kMaxPages, .window = size.ahead};
    std::vector<SegmentRow> rows;
    for (std::uint16_t i = 0; i < size.owners; ++i)
      rows.push_back({.process = owner_number(i),
                      .length = std::uint64_t{pages} * kPageBytes,
                      .page_bytes = kPageBytes,
                      .epoch = 1});
    for (std::uint16_t i = 0; i < size.readers; ++i) {
      config.consumers.push_back(reader_number(i));
      config.members.push_back(identity(reader_number(i)));
    }
    for (std::uint16_t i = 0; i < size.owners; ++i)
      config.members.push_back(identity(owner_number(i)));
    const PageTable table = PageTable::make(std::move(rows)).value();
    controller_ = std::make_unique<ControllerCore>(config, table, now_);
    for (std::uint16_t i = 0; i < size.readers; ++i)
      readers_.push_back(std::make_unique<ReaderCore>(
          ReaderConfig{.identity = {.process = reader_number(i), .epoch = 1},
                       .dp_rank = i,
                       .ahead = size.ahead - 1},
          table));
    for (std::uint16_t i = 0; i < size.owners; ++i) {
      generations_.emplace_back(pages);
      owners_.push_back(std::make_unique<OwnerCore>(
          OwnerConfig{
              .identity = {.process = owner_number(i), .epoch = 1},
              .place = {.process = owner_number(i), .page_bytes = kPageBytes, .pages = pages},
              .reserve_pages = kMaxPages,
              .window = size.ahead,
              .encoders = 4},
          table, Generations(generations_.back())));
    }
  }

  /// Goes on until the steps before `step` are committed.
  void run_to(std::uint64_t step) {
    while (controller_->low() < step) {
      while (controller_->planned_end() < controller_->low() + size_.ahead) {
        put(0, plan_of(size_, controller_->planned_end()));
        run_events();
      }
      tick();
    }
  }

  struct Costs {
    double controller = 0, owners = 0, readers = 0, wire = 0;  // CPU seconds
    double longest = 0;  // of the controller, for one event: it hears nobody meanwhile
    std::uint64_t messages = 0, frames = 0;
  };
  Costs costs;

 private:
  [[nodiscard]] std::uint16_t reader_number(std::uint16_t index) const {
    return static_cast<std::uint16_t>(1 + index);
  }
  [[nodiscard]] std::uint16_t owner_number(std::uint16_t index) const {
    return static_cast<std::uint16_t>(1 + size_.readers + index);
  }
  [[nodiscard]] PeerIdentity identity(std::uint16_t process) const {
    const Role role = process == 0               ? Role::kController
                      : process <= size_.readers ? Role::kConsumer
                                                 : Role::kProducer;
    return {.role = role, .process = process, .epoch = 1};
  }

  void put(std::uint16_t to, Event event) { events_.emplace_back(to, std::move(event)); }

  void tick() {
    now_ = now_ + kTick;
    for (std::uint16_t process = 0; process <= size_.readers + size_.owners; ++process)
      put(process, Tick{});
    made_ = 0;
    run_events();
    while (made_ < size_.objects / kTicks + 1 && !encodes_.empty()) {
      const auto [owner, encode] = encodes_.front();
      encodes_.pop_front();
      ++made_;
      put(owner, Encoded{.slot = encode.slot, .description = {.bytes = 100}});
      run_events();
    }
  }

  void run_events() {
    while (!events_.empty()) {
      auto [to, event] = std::move(events_.front());
      events_.pop_front();
      const double begin = cpu_seconds();
      const std::vector<Action> actions = step(to, event);
      const double seconds = cpu_seconds() - begin;
      cost_of(to) += seconds;
      if (to == 0) costs.longest = std::max(costs.longest, seconds);
      for (const Action& action : actions)
        std::visit([&](const auto& one) { perform(to, one); }, action);
    }
  }

  std::vector<Action> step(std::uint16_t process, const Event& event) {
    if (process == 0) return controller_->step(event, now_);
    if (process <= size_.readers) return readers_[process - 1U]->step(event, now_);
    return owners_[process - size_.readers - 1U]->step(event, now_);
  }
  double& cost_of(std::uint16_t process) {
    if (process == 0) return costs.controller;
    return process <= size_.readers ? costs.readers : costs.owners;
  }

  template <class Other>
  void perform(std::uint16_t, const Other&) {
    std::abort();  // nothing fails here
  }
  void perform(std::uint16_t from, const Send& send) {
    ++costs.messages;
    const double begin = cpu_seconds();
    for (const FrameContent& frame : frames_of(send.message)) {
      ++costs.frames;
      if (auto message = links_[{from, send.to}].take(frame.type, frame.body).value())
        put(send.to, MessageReceived{.from = identity(from), .message = *std::move(message)});
    }
    costs.wire += cpu_seconds() - begin;
  }
  void perform(std::uint16_t owner, const Encode& encode) { encodes_.emplace_back(owner, encode); }
  void perform(std::uint16_t reader, const StartGet& get) {
    put(get.handle.fields.process,
        MessageReceived{.from = identity(reader),
                        .message = whole_object(get.handle.fields, get.request)});
  }
  void perform(std::uint16_t owner, const SendObject& sent) {
    put(owner, GrantEnded{sent.grant});
    put(sent.to,
        GetDone{.request = sent.reply.request, .status = static_cast<Status>(sent.reply.status)});
  }
  void perform(std::uint16_t reader, const DeliverMicrobatch& delivered) {
    const std::uint64_t microbatches = (size_.objects + kKeysOfMicrobatch - 1) / kKeysOfMicrobatch;
    const std::uint64_t own = (microbatches + size_.readers - reader) / size_.readers;
    if (delivered.order + 1 == own) put(reader, StepFinished{delivered.step});
  }
  void perform(std::uint16_t, const LogPlan& log) { put(0, PlanLogged{log.plan.step}); }
  void perform(std::uint16_t, const CommitStep&) {}

  JobSize size_;
  TimePoint now_{1'000'000'000};
  std::deque<std::pair<std::uint16_t, Event>> events_;
  std::deque<std::pair<std::uint16_t, Encode>> encodes_;
  std::uint64_t made_ = 0;
  std::map<std::pair<std::uint16_t, std::uint16_t>, PartCollector> links_;  // from, to
  std::unique_ptr<ControllerCore> controller_;
  std::vector<std::unique_ptr<ReaderCore>> readers_;
  std::deque<std::vector<std::atomic<std::uint64_t>>> generations_;
  std::vector<std::unique_ptr<OwnerCore>> owners_;
};

void large_step(benchmark::State& state) {
  const JobSize size{.objects = static_cast<std::uint64_t>(state.range(0)),
                     .ahead = static_cast<std::uint64_t>(state.range(1)),
                     .owners = static_cast<std::uint16_t>(state.range(2)),
                     .readers = static_cast<std::uint16_t>(state.range(3))};
  for (auto _ : state) {
    Job job(size);
    job.run_to(1);
    job.costs = {};
    job.run_to(1 + kSteps);
    const auto per_object = [&](double sum) {
      return sum / static_cast<double>(kSteps * size.objects);
    };
    state.counters["controller_us"] = per_object(job.costs.controller * 1e6);
    state.counters["owners_us"] = per_object(job.costs.owners * 1e6);
    state.counters["readers_us"] = per_object(job.costs.readers * 1e6);
    state.counters["longest_ms"] = job.costs.longest * 1e3;
    state.counters["wire_us"] = per_object(job.costs.wire * 1e6);
    state.counters["frames"] = per_object(static_cast<double>(job.costs.frames));
    state.counters["messages"] = per_object(static_cast<double>(job.costs.messages));
  }
}
BENCHMARK(large_step)
    ->ArgNames({"objects", "ahead", "owners", "readers"})
    ->Args({1'000, 8, 4, 4})
    ->Args({2'000, 8, 4, 4})
    ->Args({20'000, 8, 4, 4})
    ->Args({4'000, 8, 64, 256})
    ->Args({20'000, 8, 64, 256})
    ->Args({100'000, 8, 64, 256})
    ->Iterations(1)
    ->Unit(benchmark::kSecond);

}  // namespace
}  // namespace tributary::memory
