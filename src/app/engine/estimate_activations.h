#pragma once

#include "config/run/mesh_shape.h"
#include "config/run/run_config.h"
#include "core/units.h"

namespace tributary::app {

/// Estimates the bytes that a rank keeps for the backward pass of one full microbatch, by the
/// planner's cost model of each layer. With a vision tower all tokens count as pictures. A pipeline
/// stage keeps several microbatches of fewer layers, which comes to the same.
///
/// errors: as config::read_graph_of_model
[[nodiscard]] Bytes estimate_activations(const config::RunConfig& config,
                                         const config::MeshShape& mesh);

}  // namespace tributary::app
