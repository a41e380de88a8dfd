#include <algorithm>
#include <utility>

#include "config/family/known_modules.h"
#include "config/plan/plan.h"
#include "config/plan/plan_names.h"
#include "config/reading/problems.h"
#include "config/run/run_tree.h"

namespace tributary::config {
namespace {

bool is_own(const ModulePlan& module) { return module.placement != Placement::kInline; }

/// Whether `parallel.vision_stages` says all of a plan's placement: the tower has the degrees of
/// the backbone, on the ranks before it.
bool has_first_stages(const Plan& plan) {
  const ModulePlan* tower = plan.find(kStagedModule);
  const ModulePlan& backbone = *plan.find(kBackboneModule);
  if (tower == nullptr || tower->placement != Placement::kSeparate) return false;
  MeshShape same = backbone.mesh;
  same.pp = tower->mesh.pp;
  return std::ranges::count_if(plan.modules, is_own) == 2 && tower->mesh == same &&
         tower->ranks.back() < backbone.ranks.front();
}

ModuleSection section_of(const ModulePlan& module, const ModulePlan& backbone) {
  const MeshShape& mesh = module.mesh;
  const bool is_separate = module.placement == Placement::kSeparate;
  if (module.placement == Placement::kFlow)
    return {.module = module.name, .placement = module.placement, .dp_replicate = mesh.world()};
  return {.module = module.name,
          .placement = module.placement,
          .ranks = is_separate ? module.ranks : std::vector<std::int64_t>{},
          .pp = mesh.pp,
          .dp_replicate = mesh.dp_replicate,
          .dp_shard = {mesh.dp_shard},
          .cp = mesh.cp,
          .ulysses = mesh.ulysses,
          .tp = mesh.tp,
          .passes = module.passes,
          .turns = module.turns,
          .ahead = module.ahead,
          .features = module.features,
          .stages = module.placement == Placement::kColocated && module.ranks != backbone.ranks
                        ? BesideStages::kFirst
                        : BesideStages::kAll};
}

/// Sets the degrees of the backbone and the places of all other modules.
void set_places(const Plan& plan, ParallelSection& parallel) {
  const MeshShape& mesh = plan.find(kBackboneModule)->mesh;
  parallel.modules = inline_sections();
  parallel.vision_stages = 0;
  if (has_first_stages(plan)) {
    parallel.vision_stages = plan.find(kStagedModule)->mesh.pp;
  } else {
    for (ModuleSection& section : parallel.modules)
      if (const ModulePlan* module = plan.find(section.module); module && is_own(*module))
        section = section_of(*module, *plan.find(kBackboneModule));
  }
  parallel.pp.count = mesh.pp + parallel.vision_stages;
  parallel.dp_replicate.count = mesh.dp_replicate;
  parallel.dp_shard.count = mesh.dp_shard;
  parallel.cp.count = mesh.cp;
  parallel.ulysses.count = mesh.ulysses;
  parallel.tp.count = mesh.tp;
  parallel.ep.count = mesh.ep;
}

void set_module(const ModulePlan& module, RunConfig& config) {
  if (module.train == TrainMode::kFrozen &&
      std::ranges::find(config.model.freeze, module.name) == config.model.freeze.end())
    config.model.freeze.push_back(module.name);
  if (module.recompute != RecomputePlan::kNone)
    config.model.recompute.push_back({module.name, module.recompute, module.recompute_every});
}

}  // namespace

RunConfig apply_plan(RunConfig config) {
  const std::string path = config.parallel.plan;
  return path.empty() ? config : apply_plan(read_plan(path), path, std::move(config));
}

RunConfig apply_plan(const Plan& plan, const std::string& where, RunConfig config) {
  Problems problems;
  for (ErrorParts& limit : trainer_limits(plan, where, config.model.has_adapters()))
    problems.add(std::move(limit));
  if (config.batch.correct_costs && plan.batch.balance == Balance::kNone)
    problems.add({.what = "train: batch.correct_costs has no effect on a plan without balancing",
                  .where = str(where, " batch.balance"),
                  .found = "none, and batch.correct_costs true",
                  .expected = "lpt or lpt_2d, or batch.correct_costs false"});
  problems.raise_if_any("plan of the run");

  const ModulePlan* backbone = plan.find(kBackboneModule);
  ParallelSection& parallel = config.parallel;
  set_places(plan, parallel);
  parallel.schedule = backbone->schedule;
  parallel.virtual_stages =
      std::max<std::int64_t>(1, std::ssize(backbone->stages) / backbone->mesh.pp);
  parallel.offload = backbone->offload;
  // Of a run with adapters, modules without one stay frozen.
  if (!config.model.has_adapters()) config.model.freeze.clear();
  config.model.recompute.clear();
  config.model.offload.clear();
  for (const ModulePlan& module : plan.modules) set_module(module, config);
  config.batch.global_samples = plan.batch.global_samples;
  config.batch.capacity_tokens = plan.batch.capacity_tokens;
  config.batch.packing = plan.batch.packing;
  config.batch.microbatches = plan.batch.packing == Packing::kLevel ? plan.batch.microbatches : 0;
  config.batch.balance = plan.batch.balance;
  check_combinations(config, {}, problems);
  problems.raise_if_any(where);
  return config;
}

}  // namespace tributary::config
