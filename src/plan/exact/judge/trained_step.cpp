#include "plan/exact/judge/trained_step.h"

#include "plan/exact/judge/batch_deals.h"
#include "plan/exact/judge/simulate_on.h"

namespace tributary::plan {

TrainedStep trained_step(const PlanningProblem& problem, config::Plan plan) {
  PlanningProblem as_trained = problem;
  as_trained.space.runnable = true;
  TrainedStep result;
  result.capacity = plan.batch.capacity_tokens = BatchDeals(as_trained).capacity(plan);
  const Simulation simulation = simulate_on(as_trained, plan, std::ssize(problem.batches));
  const auto [lane, bytes] = fullest_lane(simulation);
  result.step = simulation.distribution.mean;
  result.peak = bytes;
  result.fullest = module_of(simulation, lane);
  return result;
}

}  // namespace tributary::plan
