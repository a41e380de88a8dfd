#include "plan/exact/simulate_on.h"

#include "schedule/pipeline/plan_pipeline.h"

namespace tributary::plan {
namespace {

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
  const std::vector<std::vector<SampleSize>> batches(
      problem.batches.begin() + static_cast<std::ptrdiff_t>(first_batch),
      problem.batches.begin() + static_cast<std::ptrdiff_t>(end_batch));
  return simulate_batches(problem, plan, batches, std::ssize(batches));
}

Simulation simulate_on(const PlanningProblem& problem, const config::Plan& plan,
                       std::int64_t batches) {
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
