#include "plan/exact/judge/simulate_on.h"

#include <algorithm>

#include "plan/exact/judge/batch_deals.h"
#include "plan/shapes/deal_step.h"
#include "schedule/pipeline/plan_pipeline.h"

namespace tributary::plan {
namespace {

/// Samples of one size come out the same.
bool is_dealt_as_trained(const PlanningProblem& problem) {
  return problem.space.runnable && !has_equal_samples(problem);
}

Simulation simulate_given(const PlanningProblem& problem, const config::Plan& plan,
                          const LayerStageCosts& costs, std::vector<StepShapes> given) {
  const std::int64_t steps = std::ssize(given);
  return simulate(
      plan, costs, problem.cluster,
      {.steps = steps,
       .samples = {.kind = SampleSource::Kind::kGiven, .recorded = {}, .given = std::move(given)},
       .network = {.threads = problem.threads}});
}

/// With the microbatches that the trainer makes of each batch.
Simulation simulate_as_trained(const PlanningProblem& problem, const config::Plan& plan,
                               std::size_t first_batch, std::size_t end_batch) {
  const LayerStageCosts costs = costs_on(problem, plan);
  const schedule::Pipeline pipeline = schedule::pipeline_of(plan);
  StepDealer dealer(plan, pipeline, costs);
  std::vector<StepShapes> given;
  for (std::size_t batch = first_batch; batch < end_batch; ++batch)
    given.push_back(dealer.deal(problem.batches[batch]));
  return simulate_given(problem, plan, costs, std::move(given));
}

Simulation simulate_batches(const PlanningProblem& problem, const config::Plan& plan,
                            const std::vector<std::vector<SampleSize>>& batches,
                            std::int64_t steps) {
  return simulate(
      plan, costs_on(problem, plan), problem.cluster,
      {.steps = steps,
       .samples = {.kind = SampleSource::Kind::kBatches, .recorded = {}, .batches = &batches},
       .network = {.threads = problem.threads}});
}

}  // namespace

LayerStageCosts costs_on(const PlanningProblem& problem, const config::Plan& plan) {
  return {plan,
          problem.model,
          problem.cluster,
          problem.costs(),
          schedule::pipeline_of(plan),
          problem.execution};
}

Simulation simulate_on(const PlanningProblem& problem, const config::Plan& plan,
                       std::size_t first_batch, std::size_t end_batch) {
  if (is_dealt_as_trained(problem))
    return simulate_as_trained(problem, plan, first_batch, end_batch);
  const std::vector<std::vector<SampleSize>> batches(
      problem.batches.begin() + static_cast<std::ptrdiff_t>(first_batch),
      problem.batches.begin() + static_cast<std::ptrdiff_t>(end_batch));
  return simulate_batches(problem, plan, batches, std::ssize(batches));
}

Simulation simulate_on(const PlanningProblem& problem, const config::Plan& plan, BatchDeals& deals,
                       std::size_t first_batch, std::size_t end_batch) {
  // Steps of equal samples are all alike, and simulated once.
  if (problem.space.runnable || has_equal_samples(problem))
    return simulate_on(problem, plan, first_batch, end_batch);
  const schedule::Pipeline pipeline = schedule::pipeline_of(plan);
  std::vector<StepShapes> given;
  for (std::size_t batch = first_batch; batch < end_batch; ++batch)
    given.push_back(deal_samples(pipeline, problem.batches[batch],
                                 deals.buckets(plan, batch, DealEffort::kUsual)));
  return simulate_given(problem, plan, costs_on(problem, plan), std::move(given));
}

Simulation simulate_on(const PlanningProblem& problem, const config::Plan& plan,
                       std::int64_t batches) {
  if (is_dealt_as_trained(problem))
    return simulate_as_trained(problem, plan, 0,
                               std::min(static_cast<std::size_t>(batches), problem.batches.size()));
  return simulate_batches(problem, plan, problem.batches, batches);
}

std::pair<int, Bytes> fullest_lane(const Simulation& simulation) {
  int fullest = 0;
  for (int lane = 1; lane < simulation.program.lanes(); ++lane)
    if (simulation.memory[lane].total() > simulation.memory[fullest].total()) fullest = lane;
  Bytes most = simulation.memory[fullest].total();
  if (simulation.out_of_memory) most = std::max(most, simulation.out_of_memory->needed);
  return {fullest, most};
}

std::string module_of(const Simulation& simulation, int lane) {
  const schedule::PipelineMap& map = simulation.program.map();
  return map.pipeline().modules[map.at(lane).module].name;
}

}  // namespace tributary::plan
