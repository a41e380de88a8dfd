#include "app/launch/job_plan.h"

#include <filesystem>

#include "app/engine/engine.h"
#include "config/family/all_families.h"
#include "config/plan/plan_of_run.h"
#include "config/run/module_places.h"

namespace tributary::app {

config::Plan plan_of_job(config::RunConfig run, std::int64_t ranks) {
  run = config::apply_plan(with_adapters(run).run);
  if (ranks == 0) ranks = config::count_ranks(run.parallel);
  config::Plan plan = config::plan_of_run(run, ranks, config::read_model_config(run.model.path));
  plan.model = std::filesystem::absolute(run.model.path).lexically_normal().string();
  return plan;
}

}  // namespace tributary::app
