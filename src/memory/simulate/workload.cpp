#include "memory/simulate/workload.h"

#include <algorithm>
#include <cstring>

#include "core/random.h"
#include "memory/wire/parts.h"

namespace tributary::memory {

SimulatedWorkload draw_workload(std::uint64_t seed) {
  RandomStream draw(seed, "workload");
  SimulatedWorkload workload;
  workload.seed = workload.data_seed = seed;
  workload.producers = static_cast<std::uint16_t>(draw.between(1, 3));
  workload.consumers = static_cast<std::uint16_t>(draw.between(1, 2));
  workload.lends = draw.below(3) == 0;
  if (workload.lends) ++workload.producers;
  workload.steps = static_cast<std::uint64_t>(draw.between(4, 7));
  workload.window = static_cast<std::uint64_t>(draw.between(1, 3));
  workload.ahead = draw.below(2);
  workload.reserve_pages = static_cast<std::uint32_t>(draw.between(1, 4));
  workload.encoders = static_cast<std::uint32_t>(draw.between(1, 3));
  // What waits for an object of a later step must not keep the oldest one from being made.
  if (workload.lends) workload.encoders = UINT32_MAX;
  workload.checkpoint_every = static_cast<std::uint64_t>(draw.between(1, 3));
  RandomStream frames(seed, "frames");
  if (frames.below(2) == 0) workload.frame_bytes = kPartHead + 4 + frames.below(60);
  std::uint64_t largest_step = 0;
  for (std::uint64_t step = 0; step < workload.steps; ++step) {
    std::uint64_t pages = 0;
    for (const PlannedObject& object : plan_of(workload, step).objects) pages += object.pages;
    largest_step = std::max(largest_step, pages);
  }
  const std::uint64_t survivors =
      std::max<std::uint64_t>(1, workload.producers - (workload.lends ? 2U : 1U));
  workload.pages = static_cast<std::uint32_t>((largest_step + survivors - 1) / survivors) +
                   workload.reserve_pages;

  SimulatedFaults& faults = workload.faults;
  if (draw.below(8) == 0) return workload;  // nothing goes wrong
  if (draw.below(4) == 0) workload.patience = {draw.between(10'000'000, 300'000'000)};
  faults.drop = 0.1 * draw.uniform();
  faults.duplicate = 0.1 * draw.uniform();
  faults.corrupt = 0.02 * draw.uniform();
  faults.encode_failure = draw.below(4) == 0 ? 0.5 * draw.uniform() : 0;
  faults.max_delay = {draw.between(1'000'000, 40'000'000)};
  faults.producer_kills = static_cast<int>(draw.below(3));
  faults.producer_stops = static_cast<int>(draw.below(3));
  faults.partitions = static_cast<int>(draw.below(3));
  faults.consumer_kills = draw.below(4) == 0 ? 1 : 0;
  faults.controller_kills = draw.below(4) == 0 ? 1 : 0;
  faults.broken_links = static_cast<int>(draw.below(4));
  return workload;
}

StepPlanned plan_of(const SimulatedWorkload& workload, std::uint64_t step) {
  RandomStream draw(workload.data_seed, "plan", step);
  StepPlanned planned{.plan = {.step = step}};
  std::uint64_t sample = step * 100;
  for (std::uint32_t rank = 0; rank < workload.consumers; ++rank) {
    const auto microbatches = static_cast<std::uint32_t>(draw.between(1, 2));
    for (std::uint32_t order = 0; order < microbatches; ++order) {
      PlannedMicrobatch microbatch{.dp_rank = rank, .order = order};
      for (std::int64_t samples = draw.between(1, 3); samples > 0; --samples, ++sample)
        for (std::int64_t part = 0, parts = draw.between(1, 2); part < parts; ++part) {
          const Key key{.sample = sample, .part = static_cast<std::uint16_t>(part)};
          microbatch.keys.push_back(key);
          planned.objects.push_back(
              {.key = key,
               .pages = static_cast<std::uint32_t>(draw.between(1, workload.reserve_pages)),
               .bundle = order});
        }
      planned.plan.microbatches.push_back(std::move(microbatch));
    }
  }
  if (workload.lends)
    planned.objects.push_back(
        {.key = lent_key(step), .pages = workload.reserve_pages, .lender = workload.producers});
  return planned;
}

Key lent_key(std::uint64_t step) { return {.sample = step * 100 + 99, .part = 2}; }

std::vector<std::byte> bytes_of(const Key& key, std::uint32_t pages) {
  RandomStream draw(key.sample, "bytes", key.part);
  const std::size_t unused = draw.below(kSimulatedPageBytes);
  std::vector<std::byte> bytes(std::size_t{pages} * kSimulatedPageBytes);
  for (std::size_t at = 0; at < bytes.size(); at += sizeof(std::uint64_t)) {
    const std::uint64_t word = draw.next();
    std::memcpy(bytes.data() + at, &word, sizeof word);
  }
  bytes.resize(bytes.size() - unused);
  return bytes;
}

}  // namespace tributary::memory
