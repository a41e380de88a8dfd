#include "plan/compare/mean_flops.h"

#include "plan/exact/judge/simulate_on.h"
#include "schedule/pipeline/plan_pipeline.h"

namespace tributary::plan {

double mean_flops(const PlanningProblem& problem, const config::Plan& plan) {
  const LayerStageCosts costs = costs_on(problem, plan);
  const MicrobatchShape batch = mean_batch(problem);
  const schedule::Pipeline pipeline = schedule::pipeline_of(plan);
  double flops = 0;
  for (int module = 0; module < std::ssize(pipeline.modules); ++module)
    for (int stage = 0; stage < pipeline.modules[module].virtual_stages(); ++stage)
      flops += costs.flops(module, stage, batch).all.causal;
  return flops;
}

}  // namespace tributary::plan
