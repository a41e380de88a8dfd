#pragma once

#include <string>

#include "plan/problem/planning_problem.h"
#include "simulate/simulate.h"

namespace tributary::plan {

class BatchDeals;

/// The costs of a plan of the problem.
[[nodiscard]] cost::LayerStageCosts costs_on(const PlanningProblem& problem,
                                             const config::Plan& plan);

/// Simulates the plan on batches [first, end) of the problem with shared links, dealt as the
/// trainer deals them.
[[nodiscard]] simulate::Simulation simulate_on(const PlanningProblem& problem,
                                               const config::Plan& plan, std::size_t first_batch,
                                               std::size_t end_batch);
/// The same for a plan with the capacity that `deals` has for these batches.
[[nodiscard]] simulate::Simulation simulate_on(const PlanningProblem& problem,
                                               const config::Plan& plan, BatchDeals& deals,
                                               std::size_t first_batch, std::size_t end_batch);
/// On its first `batches` batches, from the first again when they are over.
[[nodiscard]] simulate::Simulation simulate_on(const PlanningProblem& problem,
                                               const config::Plan& plan, std::int64_t batches);

[[nodiscard]] std::string module_of(const simulate::Simulation& simulation, int lane);

}  // namespace tributary::plan
