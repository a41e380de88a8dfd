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

/// What a sample asks of one chain: an encoder with its projector, or the backbone with its head.
struct ChainLoad {
  Nanoseconds time;       // predicted, of a training step
  std::int64_t rows = 0;  // inputs of the chain: patches, tokens

  friend bool operator==(const ChainLoad&, const ChainLoad&) = default;
};

/// What a step plan needs to know of a sample: its tokens, and the predicted work on it.
struct SampleLoad {
  Tokens tokens;
  std::vector<ChainLoad> chains = {};  // of the model, the backbone last; the same for all samples

  [[nodiscard]] Nanoseconds sum() const {
    Nanoseconds sum;
    for (const ChainLoad& chain : chains) sum += chain.time;
    return sum;
  }
  friend bool operator==(const SampleLoad&, const SampleLoad&) = default;
};

struct StepProblem {
  std::span<const SampleLoad> samples;  // of the global batch
  std::int64_t replicas = 1;
  Meeting meeting = Meeting::kStep;
  config::Balance balance = config::Balance::kNone;
  config::Packing packing = config::Packing::kBestFitDecreasing;
  std::int64_t microbatches = 0;  // for each replica, with kLevel
  Tokens capacity;                // of a microbatch
  std::int64_t evaluations = 0;   // that balancing may take; 0: by the number of samples
};

/// The replica and the microbatch of each sample in a global batch.
struct StepPlan {
  std::vector<std::int32_t> replica_of;  // [samples]
  // [replicas] bins of indices in the global batch. Balanced bins ascend inside, and those of one
  // round have the same number.
  std::vector<PackedBins> microbatches;
  double gap = 0;  // of the slowest bucket over a lower bound [fraction]

  friend bool operator==(const StepPlan&, const StepPlan&);
};

/// Dispatches the samples of a global batch to replicas and microbatches.
///
/// kNone dispatches round-robin and packs the samples of each replica. kLpt balances the sum of
/// predicted times; kLpt2d balances those of each chain separately, where a chain whose times
/// cannot be level counts by its excess over the best possible level, in nanoseconds.
/// Replicas that meet once a step are balanced over the step and pack their samples; those that
/// meet at every microbatch are balanced in each round, with the fewest microbatches that hold all
/// samples. Packing::kLevel balances all microbatches of the step, because pipelines wait for their
/// slowest stage at each; where replicas meet once a step and one would be over 1 % late, as with a
/// sample above the mean of a microbatch, replicas are balanced first. The number of microbatches
/// is the one asked for, larger only where the samples need it and smaller only where there are
/// fewer samples; rounds run in the places of place_of_round.
///
/// units:  a pure function: the same on every rank and for any number of threads
/// errors: Fault::kInput for a sample longer than the capacity, no replica, a time below 0, or
///         kLevel without a balance
/// source: DFLOP, section on online microbatch scheduling; bound and search are those of balance()
[[nodiscard]] StepPlan plan_step(const StepProblem& problem);

/// The place in a step of the nth costliest round: the costliest in the middle, the others
/// alternately after and before them, the least last. While a pipeline fills and drains, its other
/// stages wait for the first and the last rounds.
///
/// shape:  nth and the place count from 0 and are below `rounds`; the last place is that of the
///         least round, which some replicas may lack
/// source: docs/theory/planning.md, "Order of rounds"
[[nodiscard]] constexpr std::int64_t place_of_round(std::int64_t nth, std::int64_t rounds) {
  const std::int64_t smaller = rounds - 1 - nth;
  return smaller % 2 == 0 ? rounds - 1 - smaller / 2 : smaller / 2;
}

/// Whether replicas wait for each other at every microbatch, as those with shards of the same
/// parameters do, or once a step.
[[nodiscard]] constexpr Meeting meeting_of(std::int64_t dp_shard, config::Shard shard) {
  return dp_shard == 1 || shard == config::Shard::kOptimizer ? Meeting::kStep
                                                             : Meeting::kMicrobatch;
}

/// A 62-bit hash. Ranks compare it to be sure that they made the same plan.
[[nodiscard]] std::int64_t fingerprint(const StepPlan& plan);

}  // namespace tributary::schedule
