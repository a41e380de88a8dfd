#include "studies/compare/mean_flops.h"

#include "plan/judge/simulate_on.h"
#include "schedule/pipeline/plan_pipeline.h"

namespace tributary::studies {

double mean_flops(const plan::PlanningProblem& problem, const config::Plan& plan) {
  const cost::LayerStageCosts costs = plan::costs_on(problem, plan);
  const cost::MicrobatchShape batch = plan::mean_batch(problem);
  const schedule::Pipeline pipeline = schedule::pipeline_of(plan);
  double flops = 0;
  for (int module = 0; module < std::ssize(pipeline.modules); ++module)
    for (int stage = 0; stage < pipeline.modules[module].virtual_stages(); ++stage)
      flops += costs.flops(module, stage, batch).all.causal;
  return flops;
}

}  // namespace tributary::studies
