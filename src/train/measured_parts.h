#pragma once

#include <span>
#include <vector>

#include "mesh/mesh.h"
#include "schedule/correct_costs/predicted_batch.h"
#include "train/executor/gradients.h"
#include "train/start/session.h"
#include "train/take_step.h"

namespace tributary::train {

/// What this rank measured of the stages for which it speaks: that of its replica of the backbone,
/// and those of its seats of encoders.
/// units: `seconds` are those of the step
[[nodiscard]] std::vector<schedule::MeasuredPart> measured_parts(const Session& session,
                                                                 const TakenStep& taken,
                                                                 const BatchResult& batch,
                                                                 double seconds);

/// Gathers what all ranks measured in a step, the same on every rank. Some have nothing of their
/// own.
///
/// collective: over the group
[[nodiscard]] std::vector<schedule::MeasuredPart> gather_parts(
    std::span<const schedule::MeasuredPart> own, const mesh::Group& world);

}  // namespace tributary::train
