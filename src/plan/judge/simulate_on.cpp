#include "plan/judge/simulate_on.h"

#include "plan/judge/batch_deals.h"
#include "schedule/pipeline/plan_pipeline.h"

namespace tributary::plan {
namespace {

simulate::Simulation simulate_batches(const PlanningProblem& problem, const config::Plan& plan,
                                      const std::vector<std::vector<simulate::SampleSize>>& batches,
                                      std::int64_t steps,
                                      std::vector<const schedule::StepPlan*> deals = {}) {
  return simulate::simulate(plan, costs_on(problem, plan), problem.cluster,
                            {.steps = steps,
                             .samples = {.kind = simulate::SampleSource::Kind::kBatches,
                                         .batches = &batches,
                                         .deals = std::move(deals)},
                             .network = {.threads = problem.threads}});
}

std::vector<std::vector<simulate::SampleSize>> some_batches(const PlanningProblem& problem,
                                                            std::size_t first, std::size_t end) {
  return {problem.batches.begin() + static_cast<std::ptrdiff_t>(first),
          problem.batches.begin() + static_cast<std::ptrdiff_t>(end)};
}

}  // namespace

cost::LayerStageCosts costs_on(const PlanningProblem& problem, const config::Plan& plan) {
  return {plan,
          problem.model,
          problem.cluster,
          problem.costs(),
          schedule::pipeline_of(plan),
          problem.execution};
}

simulate::Simulation simulate_on(const PlanningProblem& problem, const config::Plan& plan,
                                 std::size_t first_batch, std::size_t end_batch) {
  const auto batches = some_batches(problem, first_batch, end_batch);
  return simulate_batches(problem, plan, batches, std::ssize(batches));
}

simulate::Simulation simulate_on(const PlanningProblem& problem, const config::Plan& plan,
                                 BatchDeals& deals, std::size_t first_batch,
                                 std::size_t end_batch) {
  const auto batches = some_batches(problem, first_batch, end_batch);
  std::vector<const schedule::StepPlan*> dealt;
  for (std::size_t batch = first_batch; batch < end_batch; ++batch)
    dealt.push_back(&deals.step(plan, batch));
  return simulate_batches(problem, plan, batches, std::ssize(batches), std::move(dealt));
}

simulate::Simulation simulate_on(const PlanningProblem& problem, const config::Plan& plan,
                                 std::int64_t batches) {
  return simulate_batches(problem, plan, problem.batches, batches);
}

std::string module_of(const simulate::Simulation& simulation, int lane) {
  const schedule::PipelineMap& map = simulation.program.map();
  return map.pipeline().modules[map.at(lane).module].name;
}

}  // namespace tributary::plan
