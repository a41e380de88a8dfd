#pragma once

#include <memory>

#include "config/plan/plan.h"
#include "parallel/stage_map.h"

namespace tributary::train {

/// The plan that a run's `parallel` section stands for.
///
/// errors: Fault::kInput when the layers cannot be cut into the stages
[[nodiscard]] config::Plan plan_of_run(const config::RunConfig& config,
                                       const config::MeshShape& shape,
                                       const config::ModelConfig& model);

/// Which pp coordinate holds which virtual stage.
[[nodiscard]] std::shared_ptr<const parallel::StageMap> map_stages(const config::Plan& plan);

}  // namespace tributary::train
