#pragma once

#include <span>

#include "schedule/pipeline/pipeline.h"

namespace tributary::schedule {

/// How each pass changes what a virtual stage keeps, in any unit. The three values add up to 0.
///
/// source: docs/theory/parallelism.md, "Splitting B and W"
struct KeptAfter {
  std::int64_t forward = 1;
  std::int64_t backward_input = 0;
  std::int64_t backward_weight = -1;
};

/// The max that a lane keeps at once, in the order of its list. A virtual stage without backward
/// keeps nothing; one without trained weights frees everything in B.
///
/// shape:  kept [virtual stages] of the lane's module; empty: chunk activations are counted
/// units:  those of `kept`
/// errors: Fault::kBug when `kept` has another size or does not add up to 0
[[nodiscard]] std::int64_t peak_in_flight(const PipelineMap& map, int lane, const ActionList& list,
                                          std::span<const KeptAfter> kept = {});

}  // namespace tributary::schedule
