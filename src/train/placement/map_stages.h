#pragma once

#include <memory>
#include <string>

#include "config/plan/plan.h"
#include "parallel/stage_map.h"

namespace tributary::train {

/// The plan that a run's `parallel` section, or the plan that it names, stands for.
///
/// errors: Fault::kInput when it does not fit `world` ranks or the model
[[nodiscard]] config::Plan plan_of_run(const config::RunConfig& config, std::int64_t world,
                                       const config::ModelConfig& model);

/// Which pp coordinate of a module holds which virtual stage; null where it has only one.
[[nodiscard]] std::shared_ptr<const parallel::StageMap> map_stages(const config::Plan& plan,
                                                                   const std::string& module);

}  // namespace tributary::train
