#pragma once

#include "plan/exact/planning_problem.h"

namespace tributary::plan {

/// Counts the model FLOPs of a step of a plan: forward and gradients of the mean batch, causal
/// attention as the half that is there, nothing that runs again.
///
/// errors: Fault::kInput as LayerStageCosts
/// cost:   microseconds; nothing is simulated
[[nodiscard]] double mean_flops(const PlanningProblem& problem, const config::Plan& plan);

}  // namespace tributary::plan
