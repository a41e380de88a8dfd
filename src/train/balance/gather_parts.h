#pragma once

#include <vector>

#include "mesh/mesh.h"
#include "schedule/correct_costs/batch_correction.h"

namespace tributary::train {

/// What all stages of all replicas measured of a step, the same on every rank; of the ranks of a
/// stage its first one counts.
///
/// collective: over all ranks
[[nodiscard]] std::vector<schedule::MeasuredPart> gather_parts(const schedule::MeasuredPart& own,
                                                               const mesh::Mesh& mesh);

}  // namespace tributary::train
