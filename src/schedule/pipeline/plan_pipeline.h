#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "config/plan/plan.h"
#include "schedule/pipeline/pipeline.h"

namespace tributary::schedule {

/// The pipeline of a plan: a chain for each module with a mesh of its own. An inline module trains,
/// and costs, within the first stage of the backbone.
///
/// errors: Fault::kInput when the plan has modules that have no action lists: sliced ones, or ones
///         behind the backbone
[[nodiscard]] Pipeline pipeline_of(const config::Plan& plan);

/// The index of the backbone, which every pipeline of a plan has.
[[nodiscard]] std::size_t backbone_of(const Pipeline& pipeline);

/// The lanes of each rank, in the order in which they begin a step: the backbone's last. Ranks that
/// differ only in cp, ulysses and tp share their lanes.
///
/// shape:  [max rank + 1]; empty where a rank has no module
[[nodiscard]] std::vector<std::vector<int>> lanes_of_ranks(const config::Plan& plan,
                                                           const PipelineMap& map);

}  // namespace tributary::schedule
