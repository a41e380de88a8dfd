#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "config/family/known_modules.h"
#include "config/plan/plan.h"
#include "config/plan/plan_names.h"
#include "config/reading/problems.h"
#include "config/run/run_tree.h"

namespace tributary::config {
namespace {

/// Gathers the parts of a plan that the trainer cannot run.
class Limits {
 public:
  explicit Limits(const std::string& path) : path_(path) {}

  void require(bool holds, const std::string& module, const std::string& key,
               const std::string& found, const std::string& expected) {
    if (holds) return;
    limits_.push_back({.what = "train: plan asks for what the trainer cannot do",
                       .where = str(path_, " modules.", module, ".", key),
                       .found = found,
                       .expected = expected});
  }
  [[nodiscard]] std::vector<ErrorParts> take() { return std::move(limits_); }

 private:
  const std::string& path_;
  std::vector<ErrorParts> limits_;
};

/// The placements of encoders that the executor runs. This list is the one place that refuses
/// colocated modules: they are trained as soon as they stand here.
constexpr std::array kExecuted{Placement::kInline, Placement::kSeparate};

bool is_executed(Placement placement) {
  return std::ranges::find(kExecuted, placement) != kExecuted.end();
}

std::string executed_placements() {
  std::string text;
  for (const Placement each : kExecuted) text += (text.empty() ? "" : " or ") + plan_name_of(each);
  return text;
}

bool is_own(const ModulePlan& module) { return module.placement != Placement::kInline; }

/// Checks that the modules have the ranks from 0 on, so that every process has its work.
void check_ranks(const Plan& plan, Limits& limits) {
  std::set<std::int64_t> ranks;
  for (const ModulePlan& module : plan.modules)
    ranks.insert(module.ranks.begin(), module.ranks.end());
  std::int64_t missing = 0;
  while (ranks.contains(missing)) ++missing;
  const std::int64_t last = ranks.empty() ? 0 : *ranks.rbegin();
  limits.require(missing > last, std::string(kBackboneModule), "ranks",
                 str("no module has rank ", missing), str("each of the ranks 0 to ", last));
}

void check_module(const ModulePlan& module, const ModulePlan& backbone, Limits& limits) {
  limits.require(module.train != TrainMode::kLora, module.name, "train", "lora", "full or frozen");
  limits.require(module.share_percent == 100, module.name, "share_percent",
                 str(module.share_percent), "100");
  limits.require(module.offload == backbone.offload, module.name, "offload", "another value",
                 "that of the backbone");
  const KnownModule* known = find_known_module(module.name);
  std::string names;
  for (const std::string& each : known_module_names()) names += (names.empty() ? "" : ", ") + each;
  limits.require(known != nullptr, module.name, "placement", "a module of no known model", names);
  if (known == nullptr) return;
  const bool is_projector = known->role == ModuleRole::kProjector;
  limits.require(!is_projector || !is_own(module), module.name, "placement", "ranks of its own",
                 "inline: in the first stage of the backbone");
  if (is_projector) return;
  limits.require(
      is_executed(module.placement), module.name, "placement", plan_name_of(module.placement),
      known->role == ModuleRole::kBackbone ? "separate: ranks of its own" : executed_placements());
  limits.require(module.mesh.ep == 1 || known->role == ModuleRole::kBackbone, module.name,
                 "mesh.ep", str(module.mesh.ep), "1");
}

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

ModuleSection section_of(const ModulePlan& module) {
  const MeshShape& mesh = module.mesh;
  const bool is_separate = module.placement == Placement::kSeparate;
  return {.module = module.name,
          .placement = module.placement,
          .ranks = is_separate ? module.ranks : std::vector<std::int64_t>{},
          .pp = mesh.pp,
          .dp_replicate = mesh.dp_replicate,
          .dp_shard = {mesh.dp_shard},
          .cp = mesh.cp,
          .ulysses = mesh.ulysses,
          .tp = mesh.tp,
          .passes = module.passes};
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
        section = section_of(*module);
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
  if (module.train == TrainMode::kFrozen) config.model.freeze.push_back(module.name);
  if (module.recompute != RecomputePlan::kNone)
    config.model.recompute.push_back({module.name, module.recompute});
}

}  // namespace

std::vector<ErrorParts> trainer_limits(const Plan& plan, const std::string& where) {
  const ModulePlan* backbone = plan.find(kBackboneModule);
  if (backbone == nullptr)
    return {
        {.what = "train: plan has no backbone", .where = where, .expected = "modules.backbone"}};
  Limits limits(where);
  check_ranks(plan, limits);
  for (const ModulePlan& module : plan.modules) check_module(module, *backbone, limits);
  for (const EdgePlan& edge : plan.edges)
    limits.require(edge.via == EdgeVia::kExchange, edge.from, "via", "pool", "exchange");
  return limits.take();
}

void check_trainer_limits(const Plan& plan, const std::string& where) {
  Problems problems;
  for (ErrorParts& limit : trainer_limits(plan, where)) problems.add(std::move(limit));
  problems.raise_if_any(where);
}

RunConfig apply_plan(RunConfig config) {
  const std::string path = config.parallel.plan;
  return path.empty() ? config : apply_plan(read_plan(path), path, std::move(config));
}

RunConfig apply_plan(const Plan& plan, const std::string& where, RunConfig config) {
  Problems problems;
  for (ErrorParts& limit : trainer_limits(plan, where)) problems.add(std::move(limit));
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
  config.model.freeze.clear();
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
