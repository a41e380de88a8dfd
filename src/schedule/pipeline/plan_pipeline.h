#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "config/plan/plan.h"
#include "schedule/pipeline/pipeline.h"

namespace tributary::schedule {

/// The pipeline of a plan: a chain for each module with a mesh of its own; an inline module trains
/// and costs within the first stage of the backbone.
///
/// errors: Fault::kInput when the plan has what action lists do not cover: modules that are sliced
///         or behind the backbone
[[nodiscard]] Pipeline pipeline_of(const config::Plan& plan);

/// The index of the backbone, which every pipeline of a plan has.
[[nodiscard]] std::size_t backbone_of(const Pipeline& pipeline);

/// The lanes that each rank runs, those of a colocated module before the backbone's; ranks that
/// differ in cp, ulysses and tp alone share them.
///
/// shape:  [largest rank + 1]; none where a rank has no module
[[nodiscard]] std::vector<std::vector<int>> lanes_of_ranks(const config::Plan& plan,
                                                           const PipelineMap& map);

}  // namespace tributary::schedule
