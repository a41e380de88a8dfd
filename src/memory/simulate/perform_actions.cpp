#include <algorithm>
#include <set>

#include "core/error.h"
#include "core/file/crc32c.h"
#include "memory/plan_log/plan_record.h"
#include "memory/simulate/simulated_job.h"
#include "memory/wire/frame.h"

namespace tributary::memory {
namespace {

constexpr Nanoseconds kTickPeriod{25'000'000};
constexpr Nanoseconds kGetDeadline{200'000'000};

/// Copies bytes of an object out of its pages.
std::vector<std::byte> take_bytes(std::span<const std::byte> memory, const SendObject& sent) {
  std::vector<std::byte> bytes;
  for (const PageRun& run : sent.runs) {
    const auto pages = memory.subspan(std::size_t{run.first} * kSimulatedPageBytes,
                                      std::size_t{run.count} * kSimulatedPageBytes);
    bytes.insert(bytes.end(), pages.begin(), pages.end());
  }
  const auto begin = bytes.begin() + static_cast<std::ptrdiff_t>(sent.offset);
  return {begin, begin + static_cast<std::ptrdiff_t>(sent.length)};
}

void put_bytes(std::span<std::byte> memory, std::span<const PageRun> runs,
               std::span<const std::byte> bytes) {
  for (const PageRun& run : runs) {
    const std::size_t count = std::min(bytes.size(), std::size_t{run.count} * kSimulatedPageBytes);
    std::ranges::copy(bytes.first(count),
                      memory.begin() + std::ptrdiff_t{run.first} * kSimulatedPageBytes);
    bytes = bytes.subspan(count);
  }
}

std::uint32_t crc_of_record(std::span<const std::byte> record) {
  ByteReader head(record);
  static_cast<void>(head.get<std::uint32_t>());
  return head.get<std::uint32_t>();
}

std::uint32_t pages_in(std::span<const PageRun> runs) {
  std::uint32_t pages = 0;
  for (const PageRun& run : runs) pages += run.count;
  return pages;
}

}  // namespace

void SimulatedJob::run_on(std::uint16_t number, std::uint64_t life, std::function<void()> run) {
  Process& process = processes_.at(number);
  if (!process.is_alive || process.life != life) return;
  if (clock_.now() < process.stopped_until)
    process.deferred.push_back(std::move(run));
  else
    run();
}

void SimulatedJob::run_later(Process& process, Nanoseconds delay, std::function<void()> run) {
  clock_.after(delay, [this, number = process.identity.process, life = process.life,
                       run = std::move(run)] { run_on(number, life, run); });
}

void SimulatedJob::give(Process& process, const Event& event) {
  const std::uint64_t life = process.life;
  for (const Action& action : process.step(event, clock_.now())) {
    if (!process.is_alive || process.life != life) return;
    std::visit([&](const auto& one) { perform(process, one); }, action);
  }
  if (process.is_alive && process.life == life) invariants_.check(process);
}

void SimulatedJob::tick(Process& process) {
  give(process, Tick{});
  if (process.is_alive) run_later(process, kTickPeriod, [this, &process] { tick(process); });
}

void SimulatedJob::plan_ahead(Process& controller) {
  const ControllerCore& core = *controller.controller;
  while (core.planned_end() < std::min(workload_.steps, core.low() + workload_.window + 1))
    give(controller, plan_of(workload_, core.planned_end()));
}

void SimulatedJob::perform(Process& process, const Send& action) {
  const Process& to = processes_.at(action.to);
  if (!to.is_alive) return;
  PeerIdentity from = process.identity;
  from.epoch = process.epoch();
  for (const FrameContent& frame : frames_of(action.message, workload_.frame_bytes))
    network_.carry(from.process, action.to, frame_bytes(frame.type, from.epoch, 0, frame.body),
                   [this, from, number = action.to, life = to.life](std::vector<std::byte> bytes) {
                     run_on(number, life, [this, from, number, bytes = std::move(bytes)] {
                       receive(processes_.at(number), from, bytes);
                     });
                   });
}

void SimulatedJob::receive(Process& process, const PeerIdentity& from,
                           std::span<const std::byte> bytes) {
  FrameParser parser;
  Result<FrameParser::Fed> fed = parser.feed(bytes);
  if (!fed || !fed.value().frame) return;  // damaged on the way
  const Frame& frame = *fed.value().frame;
  PeerIdentity sender = from;
  sender.epoch = frame.header.epoch;
  const Result<std::optional<Message>> message =
      process.came_from[from.process].take(frame.type(), frame.body);
  TRIB_CHECK(message.has_value(), .what = "memory: an undamaged message was refused",
             .found = message ? std::string() : message.refusal().reason);
  run_.parts += frame.type() == FrameType::kPart ? 1 : 0;
  if (message.value()) give(process, MessageReceived{.from = sender, .message = *message.value()});
}

void SimulatedJob::perform(Process& process, const Encode& action) {
  // Until the object is there its pages hold rubbish, so that a reader of old bytes is found out.
  const std::vector<std::byte> bytes = bytes_of(action.key, pages_in(action.runs));
  put_bytes(process.memory, action.runs, std::vector<std::byte>(bytes.size(), std::byte{0xEE}));
  process.encoding.insert(action.slot);
  const bool fails = draw_.uniform() < workload_.faults.encode_failure;
  run_later(process, {draw_.between(1'000'000, 60'000'000)},
            [this, &process, action, fails] { finish_encoding(process, action, fails); });
}

void SimulatedJob::finish_encoding(Process& process, const Encode& action, bool fails) {
  if (!process.encoding.contains(action.slot)) return;  // cancelled
  if (fails) {
    process.encoding.erase(action.slot);
    give(process, EncodeFailed{.slot = action.slot, .reason = "drawn"});
    return;
  }
  const OwnerCore& owner = *process.owner;
  const std::uint64_t step = owner.objects().slot(action.slot).step;
  const bool depends = workload_.lends && process.identity.process != workload_.producers;
  if (depends && step >= owner.low() && !process.gathered.contains(lent_key(step))) {
    give(process, ObjectAsked{.key = lent_key(step), .step = step});
    run_later(process, {10'000'000},
              [this, &process, action] { finish_encoding(process, action, /*fails=*/false); });
    return;
  }
  const std::vector<std::byte> bytes = bytes_of(action.key, pages_in(action.runs));
  put_bytes(process.memory, action.runs, bytes);
  process.encoding.erase(action.slot);
  const ObjectDescription description{.bytes = bytes.size(), .crc32c = crc32c(bytes)};
  give(process, Encoded{.slot = action.slot, .description = description});
}

void SimulatedJob::perform(Process& process, const CancelEncode& action) {
  run_later(process, {draw_.between(0, 10'000'000)}, [this, &process, slot = action.slot] {
    if (process.encoding.erase(slot) == 0) return;  // it has ended
    ++run_.cancelled;
    give(process, EncodeCancelled{.slot = slot});
  });
}

void SimulatedJob::perform(Process& process, const SendObject& action) {
  const Process& to = processes_.at(action.to);
  const auto transmit = [this, from = process.identity.process, number = action.to, life = to.life](
                            const GetReply& reply, std::vector<std::byte> payload) {
    network_.carry(from, number, std::move(payload),
                   [this, number, life, reply](std::vector<std::byte> bytes) {
                     run_on(number, life, [this, number, reply, bytes = std::move(bytes)] {
                       finish_get(processes_.at(number), reply.request, reply, bytes);
                     });
                   });
  };
  if (action.grant == 0) {
    transmit(action.reply, {});
    return;
  }
  process.grants[action.grant] = action;
  run_later(process, {draw_.between(100'000, 30'000'000)}, [this, &process, action, transmit] {
    process.grants.erase(action.grant);
    transmit(action.reply, take_bytes(process.memory, action));
    give(process, GrantEnded{action.grant});
  });
}

void SimulatedJob::perform(Process& process, const StartGet& action) {
  ++run_.gets;
  const WireHandle& handle = action.handle.fields;
  process.gets[action.request] = action.handle;
  if (handle.bytes == 0) {
    ++run_.unmade;
    process.gathered[handle.key] = {};
    run_later(process, {}, [this, &process, request = action.request] {
      end_get(process, request, Status::kOk);
    });
    return;
  }
  run_later(process, kGetDeadline, [this, &process, request = action.request] {
    end_get(process, request, Status::kTimeout);
  });
  if (!processes_.at(handle.process).is_alive) {
    run_later(process, {5'000'000}, [this, &process, request = action.request] {
      end_get(process, request, Status::kPeerLost);
    });
    return;
  }
  perform(process, Send{.to = handle.process, .message = whole_object(handle, action.request)});
}

void SimulatedJob::finish_get(Process& reader, std::uint64_t request, const GetReply& reply,
                              std::span<const std::byte> payload) {
  const auto get = reader.gets.find(request);
  if (get == reader.gets.end()) return;  // a late or second reply
  auto status = static_cast<Status>(reply.status);
  const WireHandle& handle = get->second.fields;
  if (status == Status::kOk && crc32c(payload) != handle.crc32c) status = Status::kCorrupt;
  if (status == Status::kOk) {
    const std::vector<std::byte> bytes(payload.begin(), payload.end());
    const auto pages =
        static_cast<std::uint32_t>((bytes.size() + kSimulatedPageBytes - 1) / kSimulatedPageBytes);
    TRIB_CHECK(bytes == bytes_of(handle.key, pages),
               .what = "memory: invariant I6 is broken: a reader got bytes of another object");
    reader.gathered[handle.key] = bytes;
  }
  end_get(reader, request, status);
}

void SimulatedJob::end_get(Process& reader, std::uint64_t request, Status status) {
  if (reader.gets.erase(request) == 0) return;
  if (status != Status::kOk) ++run_.failed_gets;
  give(reader, GetDone{.request = request, .status = status});
}

void SimulatedJob::perform(Process& process, const DeliverMicrobatch& action) {
  const StepPlanned planned = plan_of(workload_, action.step);
  const auto dp_rank =
      static_cast<std::uint32_t>(process.identity.process - 1 - workload_.producers);
  for (const PlannedMicrobatch& microbatch : planned.plan.microbatches)
    for (const Key& key : microbatch.keys)
      TRIB_CHECK(microbatch.dp_rank != dp_rank || microbatch.order != action.order ||
                     process.gathered.erase(key) == 1,
                 .what = "memory: a microbatch was delivered without one of its objects");
  const bool is_first =
      delivered_[process.identity.process].insert({action.step, action.order}).second;
  TRIB_CHECK(is_first, .what = "memory: a microbatch was delivered twice");
  finish_steps();
}

void SimulatedJob::finish_steps() {
  for (; barrier_ < workload_.steps; ++barrier_) {
    for (const PlannedMicrobatch& microbatch : plan_of(workload_, barrier_).plan.microbatches) {
      if (barrier_ < given_up_) break;
      const auto consumer =
          static_cast<std::uint16_t>(1 + workload_.producers + microbatch.dp_rank);
      if (!delivered_[consumer].contains({barrier_, microbatch.order})) return;
    }
    for (auto& [number, process] : processes_)
      if (process.identity.role == Role::kConsumer && process.is_alive)
        run_later(process, {5'000'000}, [this, &process = process, step = barrier_] {
          give(process, StepFinished{step});
        });
    lose_patience();
  }
}

void SimulatedJob::lose_patience() {
  if (workload_.patience.count == 0) return;
  clock_.after(workload_.patience, [this, step = barrier_, job = incarnation_] {
    if (job != incarnation_ || step != barrier_) return;
    given_up_ = step + 1;
    ++run_.given_up;
    finish_steps();
  });
}

void SimulatedJob::perform(Process& process, const LogPlan& action) {
  PlanRecord record{.step = action.plan.step};
  for (const PlannedMicrobatch& microbatch : action.plan.microbatches) {
    PlanRecordMicrobatch& logged = record.microbatches.emplace_back();
    logged.dp_rank = microbatch.dp_rank;
    logged.order = microbatch.order;
    for (const Key& key : microbatch.keys)
      if (key.part == 0) logged.samples.push_back({.id = key.sample});
  }
  const std::uint32_t previous = record.step == 0 ? 0 : crc_of_record(log_.at(record.step - 1));
  const std::vector<std::byte> bytes = record_bytes(record, previous);
  if (record.step == log_.size()) log_.push_back(bytes);
  TRIB_CHECK(log_.at(record.step) == bytes,
             .what = "memory: invariant I14 is broken: a plan differs from its record");
  run_later(process, {draw_.between(100'000, 5'000'000)},
            [this, &process, step = record.step] { give(process, PlanLogged{step}); });
}

void SimulatedJob::perform(Process& process, const CommitStep& action) {
  TRIB_CHECK(action.step == committed_.size(),
             .what = "memory: invariant I13 is broken: steps are not committed once and in order",
             .found = str("step ", action.step, " after ", committed_.size(), " steps"));
  TRIB_CHECK(action.step < barrier_,
             .what = "memory: invariant I13 is broken: a step is committed that is not finished");
  committed_.push_back(action.step);
  if (committed_.size() % workload_.checkpoint_every == 0) checkpoint_ = committed_.size();
  run_later(process, {}, [this, &process] { plan_ahead(process); });
}

void SimulatedJob::perform(Process&, const ClosePeer& action) {
  Process& peer = processes_.at(action.process);
  TRIB_CHECK(peer.owner != nullptr && peer.epoch() == 0,
             .what = "memory: a member that keeps the rules was closed", .found = action.reason);
  ++run_.refused;
  run_later(peer, {100'000'000}, [this, &peer] { join(peer); });
}

void SimulatedJob::perform(Process& process, const StopProcess& action) {
  TRIB_CHECK(action.code != ExitCode::kBug, .what = "memory: a core stopped with a bug",
             .found = action.reason);
  kill(process);
}

}  // namespace tributary::memory
