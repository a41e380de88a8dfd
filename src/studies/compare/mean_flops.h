#pragma once

#include "plan/problem/planning_problem.h"

namespace tributary::studies {

/// Counts the model FLOPs of a step of a plan: forward and gradients of the mean batch, causal
/// attention as the half that is there, nothing that runs again.
///
/// errors: Fault::kInput as LayerStageCosts
/// cost:   microseconds; nothing is simulated
[[nodiscard]] double mean_flops(const plan::PlanningProblem& problem, const config::Plan& plan);

}  // namespace tributary::studies
