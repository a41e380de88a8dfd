#pragma once

#include "plan/problem/planning_problem.h"

namespace tributary::studies {

/// Counts the model FLOPs of a plan's step: forward and gradients of the mean batch, with half the
/// square for causal attention, and without recompute.
///
/// errors: Fault::kInput as LayerStageCosts
/// cost:   microseconds; nothing is simulated
[[nodiscard]] double mean_flops(const plan::PlanningProblem& problem, const config::Plan& plan);

}  // namespace tributary::studies
