#include "app/requests/job_plan.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <vector>

#include "app/engine/engine.h"
#include "config/family/all_families.h"
#include "config/plan/plan_of_run.h"
#include "config/run/module_places.h"
#include "config/run/stage_configs.h"

namespace tributary::app {
namespace {

std::int64_t count_encoders(const config::Plan& plan) {
  std::set<std::int64_t> encoders;
  for (const config::ModulePlan& module : plan.modules)
    if (module.placement == config::Placement::kFlow)
      encoders.insert(module.ranks.begin(), module.ranks.end());
  return std::ssize(encoders);
}

}  // namespace

config::Plan plan_of_job(config::RunConfig run, std::int64_t ranks) {
  run = config::apply_plan(with_adapters(run).run);
  if (ranks == 0) ranks = config::count_ranks(run.parallel);
  config::Plan plan = config::plan_of_run(run, ranks, config::read_model_config(run.model.path));
  plan.model = std::filesystem::absolute(run.model.path).lexically_normal().string();
  return plan;
}

std::int64_t check_job(const std::string& configuration, std::span<const std::string> overrides,
                       std::int64_t ranks) {
  std::error_code not_there;  // an error when it is read
  if (std::filesystem::is_fifo(configuration, not_there)) return 0;
  const std::vector<config::RunConfig> stages = config::stage_configs(configuration, overrides);
  std::int64_t encoders = 0;
  for (const config::RunConfig& stage : stages) {
    config::check_stage(stage, &stage == stages.data());
    const config::Plan plan = plan_of_job(stage, ranks);
    if (encoders == 0) encoders = count_encoders(plan);
  }
  return encoders;
}

}  // namespace tributary::app
