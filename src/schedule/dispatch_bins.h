#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/units.h"
#include "schedule/packed_bins.h"

namespace tributary::schedule {

/// The cost of a packed sequence: its tokens, and the attention of each sample.
struct SequenceCost {
  double per_token = 1;
  double per_token_pair = 0;  // factor on the sum of squared sample lengths
  double fixed = 0;

  friend bool operator==(const SequenceCost&, const SequenceCost&) = default;
};

/// The cost of each bin, rounded to whole units.
///
/// errors: Fault::kInput when a coefficient is below 0 or not finite
[[nodiscard]] std::vector<std::int64_t> cost_of_bins(const PackedBins& packed,
                                                     std::span<const Tokens> lengths,
                                                     const SequenceCost& cost);

/// When the replicas of a module wait for each other.
enum class Meeting {
  kStep,        // once a step (pp, ZeRO-1): the max sum of costs counts
  kMicrobatch,  // at every microbatch (FSDP): the max cost of each slot counts
};

/// Dispatches bins to replicas in equal numbers, up to one, the costliest first. kStep gives a bin
/// to the replica with the least cost so far among those that still lack bins; kMicrobatch goes
/// slot by slot, back and forth (zig-zag). Ties take the lowest bin and the lowest replica.
///
/// shape:  costs [bins], each at least 0 -> replica of each bin
/// errors: Fault::kInput when there is no replica, or a cost is below 0
/// cost:   O(bins log bins)
/// source: kStep: Graham's LPT with a limit on the count; kMicrobatch: FlowTrain, algorithm 1,
///         whose classes of similar cost are here the slots, which no other arrangement beats
[[nodiscard]] std::vector<std::int32_t> dispatch_bins(std::span<const std::int64_t> costs,
                                                      std::int64_t replicas, Meeting meeting);

/// Makes the number of bins a multiple of the replicas where it can: the costliest bin with several
/// samples is split in two, the longest sample first to the lighter half, again and again. The half
/// that is split off comes last. Bins of one sample stay; the number then ends short of a multiple.
///
/// errors: those of cost_of_bins() and dispatch_bins()
[[nodiscard]] PackedBins split_to_multiple(const PackedBins& packed,
                                           std::span<const Tokens> lengths,
                                           const SequenceCost& cost, std::int64_t replicas);

inline constexpr std::int64_t kMaxReplicas = std::int64_t{1} << 20;
inline constexpr double kMaxBinCost = 1e15;

}  // namespace tributary::schedule
