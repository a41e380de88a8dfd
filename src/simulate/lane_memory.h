#pragma once

#include <span>
#include <vector>

#include "cost/stages/stage_costs.h"
#include "simulate/engine/step_times.h"

namespace tributary::simulate {

/// The max bytes that a rank of one lane holds.
struct LaneMemory {
  Bytes parameters;
  Bytes gradients;
  Bytes optimizer;
  Bytes gathered;     // sharded parameters while they are whole
  Bytes buffers;      // of messages
  Bytes process;      // not in tensors
  Bytes other;        // of another module on its ranks, at the moment of the peak
  Bytes activations;  // at the moment of the peak
  Bytes features;     // waiting features, at that moment
  Nanoseconds peak_at;

  [[nodiscard]] Bytes total() const {
    return parameters + gradients + optimizer + gathered + buffers + process + other + activations +
           features;
  }
};

/// Bytes held after a change, for a chart.
struct MemoryPoint {
  Nanoseconds time;
  Bytes bytes;
};

/// Follows activations and waiting features of every lane through a step. Where whole batches are
/// encoded ahead, the waiting ones of later steps count too, as if these were like this one. Ranks
/// with two lanes hold what both hold at a time; among several lanes beside a lane, the one with
/// the fullest ranks counts.
///
/// shape:  costs [actions] of passes; points [lanes] where they are wanted
/// source: docs/theory/parallelism.md, "Splitting B and W"
[[nodiscard]] std::vector<LaneMemory> follow_memory(const StepProgram& program,
                                                    const StepLoad& load, const StepTimes& times,
                                                    const cost::StageCosts& costs,
                                                    std::span<const cost::StageCost> pass_costs,
                                                    std::vector<std::vector<MemoryPoint>>* points);

}  // namespace tributary::simulate
