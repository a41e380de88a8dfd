#pragma once

#include "config/plan.h"
#include "schedule/pipeline/pipeline.h"

namespace tributary::schedule {

/// The pipeline of a plan: a chain for each module with ranks of its own; an inline module trains
/// and costs within the first stage of the backbone.
///
/// errors: Fault::kInput when the plan has what action lists do not cover: modules that are
///         colocated, sliced or behind the backbone
[[nodiscard]] Pipeline pipeline_of(const config::Plan& plan);

/// The lane that each rank runs; ranks that differ in cp, ulysses and tp alone share one.
///
/// shape:  [largest rank + 1]; -1 where a rank has no module
[[nodiscard]] std::vector<int> lanes_of_ranks(const config::Plan& plan, const PipelineMap& map);

}  // namespace tributary::schedule
