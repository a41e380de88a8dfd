#pragma once

#include <cstdint>

#include "config/plan/plan.h"

namespace tributary::config {

/// The plan that a run of `world` processes trains by: its `parallel` section expanded, or the plan
/// that it names, with the layers of every module.
///
/// errors: Fault::kInput when it does not fit `world` ranks or the model, as check_trains
[[nodiscard]] Plan plan_of_run(const RunConfig& run, std::int64_t world, const ModelConfig& model);

}  // namespace tributary::config
