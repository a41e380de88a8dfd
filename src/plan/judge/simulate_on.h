#pragma once

#include <string>

#include "plan/problem/planning_problem.h"
#include "simulate/simulate.h"

namespace tributary::plan {

class BatchDeals;

/// The costs of a plan of the problem.
[[nodiscard]] cost::LayerStageCosts costs_on(const PlanningProblem& problem,
                                             const config::Plan& plan);

/// Simulates the plan on batches [first, end) of the problem with shared links, dispatched as the
/// trainer does it.
[[nodiscard]] simulate::Simulation simulate_on(const PlanningProblem& problem,
                                               const config::Plan& plan, std::size_t first_batch,
                                               std::size_t end_batch);
/// As above, with the capacity that `deals` computes for these batches.
[[nodiscard]] simulate::Simulation simulate_on(const PlanningProblem& problem,
                                               const config::Plan& plan, BatchDeals& deals,
                                               std::size_t first_batch, std::size_t end_batch);
/// Simulates `batches` batches, starting again with the first one when all have been used.
[[nodiscard]] simulate::Simulation simulate_on(const PlanningProblem& problem,
                                               const config::Plan& plan, std::int64_t batches);

[[nodiscard]] std::string module_of(const simulate::Simulation& simulation, int lane);

}  // namespace tributary::plan
