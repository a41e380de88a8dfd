#include "memory/simulate/simulated_job.h"

#include <algorithm>
#include <iterator>

#include "core/error.h"
#include "core/sha256.h"
#include "memory/plan_log/plan_record.h"

namespace tributary::memory {
namespace {

constexpr std::uint16_t kController = 0;
constexpr Nanoseconds kMaxTime{120'000'000'000};
constexpr Nanoseconds kFaultsEnd{1'500'000'000};

constexpr Timers kTimers{.heartbeat = {100'000'000},
                         .fence = {300'000'000},
                         .lost = {500'000'000},
                         .resend = {50'000'000},
                         .collect_failures = {20'000'000}};

}  // namespace

SimulatedRun simulate_pool(const SimulatedWorkload& workload) {
  return SimulatedJob(workload).run();
}

SimulatedJob::SimulatedJob(const SimulatedWorkload& workload)
    : workload_(workload),
      network_(clock_, workload.faults, workload.seed),
      draw_(workload.seed, "job") {
  const auto add = [this](Role role) {
    const auto number = static_cast<std::uint16_t>(processes_.size());
    processes_[number].identity = {.rank = number, .role = role, .process = number};
  };
  add(Role::kController);
  for (std::uint16_t i = 0; i < workload.producers; ++i) add(Role::kProducer);
  for (std::uint16_t i = 0; i < workload.consumers; ++i) add(Role::kConsumer);
}

SimulatedRun SimulatedJob::run() {
  start_job();
  schedule_faults();
  while (!is_done()) {
    TRIB_CHECK(
        clock_.run_next() && clock_.now() < kMaxTime,
        .what = "memory: invariant I12 is broken: the oldest step does not commit",
        .where = str("seed ", workload_.seed),
        .found = str(committed_.size(), " of ", workload_.steps, " steps after ", clock_.now()));
    ++run_.events;
  }
  run_.time = clock_.now();
  for (const std::uint64_t step : committed_)
    for (const PlannedMicrobatch& microbatch : plan_of(workload_, step).plan.microbatches)
      for (const Key& key : microbatch.keys)
        if (key.part == 0) run_.committed_samples.push_back(key.sample);
  std::string log;
  for (const std::vector<std::byte>& record : log_)
    log.append(reinterpret_cast<const char*>(record.data()), record.size());
  run_.plan_log = sha256_digest(log);
  const auto content = read_plan_log(std::as_bytes(std::span(log)));
  TRIB_CHECK(content && content.value().records.size() == workload_.steps,
             .what = "memory: the plan log cannot be read back");
  return run_;
}

bool SimulatedJob::is_done() const {
  if (committed_.size() < workload_.steps) return false;
  return std::ranges::all_of(processes_, [this](const auto& entry) {
    const OwnerCore* owner = entry.second.owner.get();
    return owner == nullptr || !entry.second.is_alive ||
           (owner->objects().slots().empty() && owner->objects().leases() == 0);
  });
}

std::vector<SegmentRow> SimulatedJob::rows_of(const Process& producer, std::uint32_t epoch) const {
  return {{.tier = Tier::kDram,
           .process = producer.identity.process,
           .offset = 0,
           .length = std::uint64_t{workload_.pages} * kSimulatedPageBytes,
           .page_bytes = kSimulatedPageBytes,
           .epoch = epoch,
           .incarnation = producer.identity.incarnation}};
}

PageTable SimulatedJob::first_table() const {
  std::vector<SegmentRow> rows;
  for (const auto& [number, process] : processes_)
    if (process.identity.role == Role::kProducer) rows.push_back(rows_of(process, 1).front());
  return PageTable::make(std::move(rows)).value();
}

OwnerConfig SimulatedJob::owner_config(const Process& process) const {
  return {.identity = {.process = process.identity.process,
                       .controller = kController,
                       .incarnation = process.identity.incarnation,
                       .epoch = process.identity.epoch},
          .timers = kTimers,
          .place = {.tier = Tier::kDram,
                    .process = process.identity.process,
                    .page_bytes = kSimulatedPageBytes,
                    .pages = workload_.pages},
          .reserve_pages = workload_.reserve_pages,
          .first_step = checkpoint_,
          .window = workload_.window,
          .encoders = workload_.encoders};
}

void SimulatedJob::start_job() {
  is_restarting_ = false;
  ++incarnation_;
  committed_.resize(checkpoint_);
  barrier_ = checkpoint_;
  given_up_ = 0;
  delivered_.clear();
  std::vector<PeerIdentity> members;
  std::vector<std::uint16_t> consumers;
  for (auto& [number, process] : processes_) {
    process.identity.incarnation = incarnation_;
    process.identity.epoch = 1;
    if (process.identity.role != Role::kController) members.push_back(process.identity);
    if (process.identity.role == Role::kConsumer) consumers.push_back(number);
  }
  for (auto& [number, process] : processes_) {
    start(process);
    if (process.identity.role == Role::kController)
      process.controller = std::make_unique<ControllerCore>(
          ControllerConfig{.process = number,
                           .timers = kTimers,
                           .members = members,
                           .consumers = consumers,
                           .reserve_pages = workload_.reserve_pages,
                           .window = workload_.window,
                           .first_step = checkpoint_,
                           .first_lender = workload_.lends ? workload_.producers : UINT32_MAX},
          first_table(), clock_.now());
    if (process.identity.role == Role::kConsumer)
      process.reader = std::make_unique<ReaderCore>(
          ReaderConfig{.identity = {.process = number,
                                    .controller = kController,
                                    .incarnation = incarnation_,
                                    .epoch = 1},
                       .timers = kTimers,
                       .dp_rank = static_cast<std::uint32_t>(number - 1 - workload_.producers),
                       .first_step = checkpoint_,
                       .ahead = workload_.ahead},
          first_table());
    if (process.identity.role == Role::kProducer)
      process.owner = std::make_unique<OwnerCore>(owner_config(process), first_table(),
                                                  Generations(process.generations));
  }
  plan_ahead(processes_.at(kController));
  lose_patience();
}

void SimulatedJob::start(Process& process) {
  const PeerIdentity identity = process.identity;
  const std::uint64_t life = process.life + 1;
  process = Process{};
  process.identity = identity;
  process.life = life;
  process.is_alive = true;
  if (identity.role == Role::kProducer) {
    process.memory.resize(std::size_t{workload_.pages} * kSimulatedPageBytes);
    process.generations = std::vector<std::atomic<std::uint64_t>>(workload_.pages);
  }
  run_later(process, {draw_.between(0, 25'000'000)}, [this, &process] { tick(process); });
}

void SimulatedJob::kill(Process& process) {
  if (!process.is_alive) return;
  process.is_alive = false;
  process.deferred.clear();
  const std::uint16_t number = process.identity.process;
  for (auto& [other, peer] : processes_) {
    if (!peer.is_alive) continue;
    const Nanoseconds detected{draw_.between(5'000'000, 20'000'000)};
    if (peer.controller)
      run_later(peer, detected,
                [this, &peer, lost = MemberLost{number, process.identity.incarnation}] {
                  give(peer, lost);
                });
    for (const auto& [request, handle] : peer.gets)
      if (handle.fields.process == number)
        run_later(peer, detected,
                  [this, &peer, request = request] { end_get(peer, request, Status::kPeerLost); });
  }
  if (process.identity.role == Role::kProducer)
    replace(process);
  else
    restart_job();
}

void SimulatedJob::restart_job() {
  if (std::exchange(is_restarting_, true)) return;
  ++run_.restarts;
  clock_.after({50'000'000}, [this] {
    for (auto& [number, process] : processes_) process.is_alive = false;
    start_job();
  });
}

void SimulatedJob::replace(Process& producer) {
  const std::uint64_t life = producer.life;
  clock_.after({draw_.between(50'000'000, 600'000'000)}, [this, &producer, life] {
    if (producer.is_alive || producer.life != life || is_restarting_) return;
    ++run_.replacements;
    ++producer.identity.incarnation;
    producer.identity.epoch = 0;
    start(producer);
    OwnerConfig config = owner_config(producer);
    config.first_step = 0;  // the controller tells it by COMMIT
    producer.owner =
        std::make_unique<OwnerCore>(config, PageTable{}, Generations(producer.generations));
    join(producer);
  });
}

void SimulatedJob::join(Process& producer) {
  Process& controller = processes_.at(kController);
  if (!controller.is_alive) return;
  run_later(controller, {1'000'000},
            [this, &controller, joined = MemberJoined{producer.identity, rows_of(producer, 0)}] {
              give(controller, joined);
            });
}

void SimulatedJob::schedule_faults() {
  const SimulatedFaults& faults = workload_.faults;
  const int counts[] = {faults.producer_kills, faults.producer_stops,   faults.partitions,
                        faults.consumer_kills, faults.controller_kills, faults.broken_links};
  for (int kind = 0; kind < static_cast<int>(std::size(counts)); ++kind)
    for (int i = 0; i < counts[kind]; ++i)
      clock_.at({draw_.between(0, kFaultsEnd.count)}, [this, kind] { run_fault(kind); });
}

void SimulatedJob::break_link(Process& member, Nanoseconds duration) {
  const std::uint16_t number = member.identity.process;
  network_.break_link(number, kController, clock_.now() + duration);
  if (!member.is_alive) return;
  run_later(member, duration + Nanoseconds{1}, [this, &member] {
    ++run_.renewed;
    give(member, LinkRenewed{kController});
  });
}

void SimulatedJob::run_fault(int kind) {
  const SimulatedFaults& faults = workload_.faults;
  const auto any_of = [this](Role role) -> Process& {
    const std::uint64_t first = role == Role::kProducer ? 1 : 1 + workload_.producers;
    const std::uint64_t count = role == Role::kProducer ? workload_.producers : workload_.consumers;
    return processes_.at(static_cast<std::uint16_t>(first + draw_.below(count)));
  };
  const Nanoseconds duration{draw_.between(20'000'000, 1'000'000'000)};
  if (kind == 0) kill(any_of(Role::kProducer));
  if (kind == 1) {
    Process& stopped = any_of(Role::kProducer);
    if (!stopped.is_alive) return;
    stopped.stopped_until = clock_.now() + duration;
    const std::uint64_t life = stopped.life;
    clock_.at(stopped.stopped_until, [this, &stopped, life] {
      while (stopped.is_alive && stopped.life == life && !stopped.deferred.empty()) {
        const std::function<void()> run = std::move(stopped.deferred.front());
        stopped.deferred.pop_front();
        run();
      }
    });
  }
  if (kind == 2) {
    const auto one = static_cast<std::uint16_t>(draw_.below(processes_.size()));
    const auto other = static_cast<std::uint16_t>(draw_.below(processes_.size()));
    network_.cut(one, other, clock_.now() + duration);
    if (draw_.below(2) == 0) network_.cut(other, one, clock_.now() + duration);
  }
  if (kind == 3) kill(any_of(Role::kConsumer));
  if (kind == 4) kill(processes_.at(kController));
  if (kind == 5)
    break_link(any_of(draw_.below(2) == 0 ? Role::kProducer : Role::kConsumer),
               {draw_.between(20'000'000, faults.longest_break.count)});
}

}  // namespace tributary::memory
