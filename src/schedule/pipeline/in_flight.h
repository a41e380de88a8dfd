#pragma once

#include <span>

#include "schedule/pipeline/pipeline.h"

namespace tributary::schedule {

/// How a pass changes what a virtual stage keeps, in any unit. The three add up to 0.
///
/// source: docs/theory/parallelism.md, "Splitting B and W"
struct KeptAfter {
  std::int64_t forward = 1;
  std::int64_t backward_input = 0;
  std::int64_t backward_weight = -1;
};

/// The most that a lane keeps at once, in the order of its list. Of a virtual stage without
/// backward nothing is kept; of one without weights to train everything goes with B.
///
/// shape:  kept [virtual stages] of the lane's module; empty: chunk activations are counted
/// units:  those of `kept`
/// errors: Fault::kBug when `kept` has another size or does not add up to 0
[[nodiscard]] std::int64_t peak_in_flight(const PipelineMap& map, int lane, const ActionList& list,
                                          std::span<const KeptAfter> kept = {});

}  // namespace tributary::schedule
