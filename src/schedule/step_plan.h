#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "config/policies.h"
#include "core/units.h"
#include "schedule/balance/balance.h"
#include "schedule/dispatch_bins.h"
#include "schedule/packed_bins.h"

namespace tributary::schedule {

/// What planning knows of a sample: the room it takes in a microbatch, and the predicted times of a
/// training step's work on it, module by module.
struct SampleLoad {
  Tokens tokens;
  Nanoseconds vision;    // the tower and its projector
  Nanoseconds backbone;  // with its head

  [[nodiscard]] Nanoseconds sum() const { return vision + backbone; }
  friend bool operator==(const SampleLoad&, const SampleLoad&) = default;
};

struct StepProblem {
  std::span<const SampleLoad> samples;  // of the global batch
  std::int64_t replicas = 1;
  Meeting meeting = Meeting::kStep;
  config::Balance balance = config::Balance::kNone;
  config::Packing packing = config::Packing::kBestFitDecreasing;
  std::int64_t microbatches = 0;  // of each replica, with kLevel
  Tokens capacity;                // of a microbatch
};

/// Which replica takes which sample of a global batch, in which microbatch.
struct StepPlan {
  std::vector<std::int32_t> replica_of;  // [samples]
  // [replicas]: bins of places in the global batch. Balanced bins ascend inside, and those that
  // meet in a round have the same number.
  std::vector<PackedBins> microbatches;
  double gap = 0;  // of the slowest bucket, above a bound that no arrangement is below [share]

  friend bool operator==(const StepPlan&, const StepPlan&);
};

/// Deals the samples of a global batch to replicas and microbatches.
///
/// kNone deals in turn and packs what each replica got. kLpt makes the sum of predicted times
/// level, kLpt2d the vision tower's and the backbone's each: a module whose times cannot be made
/// level counts by how far it is above the level that it could have, in nanoseconds. Replicas that
/// meet once a step are level over the step, and pack what they got; those that meet at every
/// microbatch are level in each round, with the fewest microbatches that hold all samples. With
/// Packing::kLevel all microbatches of the step are level: pipelines wait for their slowest stage
/// at each of them. They are as many as are asked for, more only where these do not hold the
/// samples, fewer where there are not as many samples; their rounds run in the places of
/// place_of_round.
///
/// units:  a pure function: the same on every rank and for any number of threads
/// errors: Fault::kInput for a sample longer than the capacity, no replica, a time below 0, or
///         kLevel without a balance
/// source: DFLOP, section on online microbatch scheduling; bound and search are those of balance()
[[nodiscard]] StepPlan plan_step(const StepProblem& problem);

/// The samples shared over buckets by the rule of level microbatches, whatever room these have.
///
/// by: kLpt or kLpt2d
[[nodiscard]] Balance share_level(std::span<const SampleLoad> samples, config::Balance by,
                                  std::int64_t buckets, const BalanceBudget& budget);

/// Where in a step the nth costliest of its rounds runs: the costliest in the middle, the others by
/// turns behind and in front of them, the least last. While a pipeline fills and drains its other
/// stages wait for the first and the last rounds.
///
/// shape:  nth and the place count from 0 and are below `rounds`; the last place is that of the
///         least round, which some replicas may lack
/// source: docs/theory/planning.md, "Order of rounds"
[[nodiscard]] constexpr std::int64_t place_of_round(std::int64_t nth, std::int64_t rounds) {
  const std::int64_t smaller = rounds - 1 - nth;
  return smaller % 2 == 0 ? rounds - 1 - smaller / 2 : smaller / 2;
}

/// Whether replicas wait for each other at every microbatch, as those that share shards of the
/// parameters do, or once a step.
[[nodiscard]] constexpr Meeting meeting_of(std::int64_t dp_shard, config::Shard shard) {
  return dp_shard == 1 || shard == config::Shard::kOptimizer ? Meeting::kStep
                                                             : Meeting::kMicrobatch;
}

/// 62 bits that another plan hardly has: by which ranks compare.
[[nodiscard]] std::int64_t fingerprint(const StepPlan& plan);

}  // namespace tributary::schedule
