#pragma once

#include <vector>

#include "mesh/mesh.h"
#include "schedule/correct_costs/batch_correction.h"

namespace tributary::train {

/// Gathers what all stages of all replicas measured in a step, the same on every rank. The first
/// rank of a stage speaks for it.
///
/// collective: over all ranks
[[nodiscard]] std::vector<schedule::MeasuredPart> gather_parts(const schedule::MeasuredPart& own,
                                                               const mesh::Mesh& mesh);

}  // namespace tributary::train
