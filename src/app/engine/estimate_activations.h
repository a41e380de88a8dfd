#pragma once

#include "config/run/mesh_shape.h"
#include "config/run/run_config.h"
#include "core/units.h"

namespace tributary::app {

/// Estimates what a rank keeps for backward of one full microbatch, by the planner's model of each
/// layer: as many tokens as fit, all of them of pictures where there is a vision tower. A pipeline
/// stage keeps several microbatches of fewer layers, which comes to the same.
///
/// errors: as config::read_graph_of_model
[[nodiscard]] Bytes estimate_activations(const config::RunConfig& config,
                                         const config::MeshShape& mesh);

}  // namespace tributary::app
