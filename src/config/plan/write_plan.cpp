#include <nlohmann/json.hpp>

#include "config/plan/plan.h"
#include "config/plan/plan_names.h"
#include "config/plan/stage_units.h"
#include "config/reading/ranges.h"
#include "core/json.h"
#include "core/sha256.h"

namespace tributary::config {
namespace {

using OrderedJson = nlohmann::ordered_json;  // keys as the format page lists them

OrderedJson write_mesh(const MeshShape& mesh) {
  return {{"pp", mesh.pp}, {"dp_replicate", mesh.dp_replicate}, {"dp_shard", mesh.dp_shard},
          {"cp", mesh.cp}, {"ulysses", mesh.ulysses},           {"tp", mesh.tp},
          {"ep", mesh.ep}};
}

OrderedJson write_module(const ModulePlan& module) {
  OrderedJson json;
  json["placement"] = plan_name_of(module.placement);
  if (!module.ranks.empty()) json["ranks"] = write_ranks(module.ranks);
  if (module.placement != Placement::kInline) json["mesh"] = write_mesh(module.mesh);
  for (const StageLayers& stage : module.stages) json["stages"].push_back(write_stage(stage));
  if (module.placement != Placement::kInline) json["schedule"] = plan_name_of(module.schedule);
  json["recompute"] = plan_name_of(module.recompute);
  if (module.recompute_every > 1) json["recompute_every"] = module.recompute_every;
  json["offload"] = plan_name_of(module.offload);
  json["train"] = plan_name_of(module.train);
  if (module.placement == Placement::kSliced) json["share_percent"] = module.share_percent;
  if (module.placement == Placement::kColocated) json["passes"] = module.passes;
  if (module.turns) json["turns"] = true;
  if (module.ahead) json["ahead"] = true;
  if (module.features != FeatureMemory::kDevice) json["features"] = plan_name_of(module.features);
  return json;
}

OrderedJson write_training(const TrainingPlan& training) {
  OrderedJson json;
  json["optimizer"] = plan_name_of(training.optimizer);
  if (training.averages) json["averages"] = true;
  const AdapterPlan& adapter = training.adapter;
  if (adapter.kind != AdapterKind::kNone)
    json["adapter"] = {
        {"kind", plan_name_of(adapter.kind)}, {"rank", adapter.rank}, {"targets", adapter.targets}};
  return json;
}

}  // namespace

std::string write_plan(const Plan& plan) {
  OrderedJson json{{"format", kPlanFormat}, {"modules", OrderedJson::object()}};
  for (const ModulePlan& module : plan.modules) json["modules"][module.name] = write_module(module);
  json["edges"] = OrderedJson::array();
  for (const EdgePlan& edge : plan.edges)
    json["edges"].push_back(
        {{"from", edge.from}, {"to", edge.to}, {"via", plan_name_of(edge.via)}});
  json["batch"] = {{"global_samples", plan.batch.global_samples},
                   {"microbatches", plan.batch.microbatches},
                   {"capacity_tokens", plan.batch.capacity_tokens.count},
                   {"packing", plan_name_of(plan.batch.packing)},
                   {"balance", plan_name_of(plan.batch.balance)}};
  OrderedJson peaks = OrderedJson::object();
  for (const auto& [module, bytes] : plan.predicted.peak_bytes) peaks[module] = bytes.count;
  json["predicted"] = {{"step_ns", plan.predicted.step.count},
                       {"lower_bound_ns", plan.predicted.lower_bound.count},
                       {"peak_bytes", peaks}};
  if (plan.predicted.samples != PlannedSamples::kUnknown)
    json["predicted"]["samples"] = plan_name_of(plan.predicted.samples);
  if (plan.predicted.samples == PlannedSamples::kEqual)
    json["predicted"]["sample_tokens"] = plan.predicted.sample_tokens.count;
  if (plan.training != TrainingPlan{}) json["training"] = write_training(plan.training);
  if (!plan.model.empty()) json["model"] = plan.model;
  return json.dump(2) + "\n";
}

std::string plan_digest(Plan plan) {
  plan.predicted = {};
  plan.training = {};
  plan.model.clear();
  for (ModulePlan& module : plan.modules)
    if (module.stages.size() == 1) module.stages.clear();
  return sha256(write_plan(plan)).substr(0, 16);
}

}  // namespace tributary::config
