#include <algorithm>
#include <utility>

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

bool is_consecutive(const std::vector<std::int64_t>& ranks, std::int64_t first) {
  for (const std::int64_t rank : ranks)
    if (rank != first++) return false;
  return true;
}

void check_backbone(const ModulePlan& backbone, std::int64_t first, Limits& limits) {
  limits.require(backbone.placement == Placement::kSeparate, "backbone", "placement",
                 plan_name_of(backbone.placement), "separate: ranks of its own");
  limits.require(is_consecutive(backbone.ranks, first), "backbone", "ranks", "other ranks",
                 str("consecutive ranks from ", first));
}

void check_tower(const ModulePlan& vision, const ModulePlan& backbone, Limits& limits) {
  if (vision.placement == Placement::kInline) return;
  limits.require(vision.placement == Placement::kSeparate, "vision", "placement",
                 plan_name_of(vision.placement), "inline or separate");
  limits.require(is_consecutive(vision.ranks, 0), "vision", "ranks", "other ranks",
                 "consecutive ranks from 0");
  MeshShape same = backbone.mesh;
  same.pp = vision.mesh.pp;
  limits.require(vision.mesh == same, "vision", "mesh", describe(vision.mesh),
                 str("the degrees of the backbone: ", describe(same)));
}

void check_module(const ModulePlan& module, const ModulePlan& backbone, Limits& limits) {
  limits.require(module.train != TrainMode::kLora, module.name, "train", "lora", "full or frozen");
  limits.require(module.share_percent == 100, module.name, "share_percent",
                 str(module.share_percent), "100");
  limits.require(module.offload == backbone.offload, module.name, "offload", "another value",
                 "that of the backbone");
  const bool is_known =
      module.name == "backbone" || module.name == "vision" || module.name == "projector";
  limits.require(is_known, module.name, "placement", "a module of no known model",
                 "backbone, vision, projector");
  limits.require(module.name != "projector" || module.placement == Placement::kInline, module.name,
                 "placement", "ranks of its own", "inline: in the first stage of the backbone");
}

void set_module(const ModulePlan& module, RunConfig& config) {
  if (module.train == TrainMode::kFrozen) config.model.freeze.push_back(module.name);
  if (module.recompute != RecomputePlan::kNone)
    config.model.recompute.push_back({module.name, module.recompute});
}

}  // namespace

std::vector<ErrorParts> trainer_limits(const Plan& plan, const std::string& where) {
  const ModulePlan* backbone = plan.find("backbone");
  if (backbone == nullptr)
    return {
        {.what = "train: plan has no backbone", .where = where, .expected = "modules.backbone"}};
  Limits limits(where);
  const ModulePlan* vision = plan.find("vision");
  const bool is_apart = vision != nullptr && vision->placement == Placement::kSeparate;
  if (vision != nullptr) check_tower(*vision, *backbone, limits);
  check_backbone(*backbone, is_apart ? std::ssize(vision->ranks) : 0, limits);
  for (const ModulePlan& module : plan.modules) check_module(module, *backbone, limits);
  for (const EdgePlan& edge : plan.edges)
    limits.require(edge.via == EdgeVia::kExchange, edge.from, "via", "pool", "exchange");
  return limits.take();
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

  const ModulePlan* backbone = plan.find("backbone");
  ParallelSection& parallel = config.parallel;
  const ModulePlan* vision = plan.find("vision");
  const bool is_apart = vision != nullptr && vision->placement != Placement::kInline;
  parallel.vision_stages = is_apart ? vision->mesh.pp : 0;
  parallel.pp.count = backbone->mesh.pp + parallel.vision_stages;
  parallel.dp_replicate.count = backbone->mesh.dp_replicate;
  parallel.dp_shard.count = backbone->mesh.dp_shard;
  parallel.cp.count = backbone->mesh.cp;
  parallel.ulysses.count = backbone->mesh.ulysses;
  parallel.tp.count = backbone->mesh.tp;
  parallel.ep.count = backbone->mesh.ep;
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
