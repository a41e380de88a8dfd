#pragma once

#include <span>
#include <vector>

#include "cost/stages/stage_costs.h"
#include "simulate/engine/step_times.h"

namespace tributary::simulate {

/// What the ranks of one lane hold at most.
struct LaneMemory {
  Bytes parameters;
  Bytes gradients;
  Bytes optimizer;
  Bytes gathered;     // sharded parameters that are whole meanwhile
  Bytes buffers;      // of messages
  Bytes process;      // beside tensors
  Bytes other;        // of another module on its ranks, at the moment of the peak
  Bytes activations;  // at the moment of the peak
  Bytes features;     // that wait, at that moment
  Nanoseconds peak_at;

  [[nodiscard]] Bytes total() const {
    return parameters + gradients + optimizer + gathered + buffers + process + other + activations +
           features;
  }
};

/// Bytes after something changed, for a chart.
struct MemoryPoint {
  Nanoseconds time;
  Bytes bytes;
};

/// Follows activations and waiting features of every lane through a step. Where whole batches are
/// encoded ahead, those of the next steps are held too, as if these were like this one. Ranks with
/// two lanes hold what both do at one time: of several lanes beside a lane, those of its fullest
/// ranks are counted.
///
/// shape:  costs [actions], of passes; points, where they are wanted, [lanes]
/// source: docs/theory/parallelism.md, "Splitting B and W"
[[nodiscard]] std::vector<LaneMemory> follow_memory(const StepProgram& program,
                                                    const StepLoad& load, const StepTimes& times,
                                                    const cost::StageCosts& costs,
                                                    std::span<const cost::StageCost> pass_costs,
                                                    std::vector<std::vector<MemoryPoint>>* points);

}  // namespace tributary::simulate
