#include <algorithm>
#include <nlohmann/json.hpp>

#include "config/plan/plan_names.h"
#include "config/plan/stage_units.h"
#include "config/reading/artifact_object.h"
#include "config/reading/ranges.h"
#include "config/reading/yaml_json.h"

namespace tributary::config {
namespace {

constexpr WholeRange kCount{1, std::int64_t{1} << 20};
constexpr WholeRange kAmount{0, std::int64_t{1} << 62};

template <class Enum>
Enum choice(ArtifactObject& object, const std::string& key, std::optional<Enum> standard) {
  return object.choice<Enum>(key, standard, plan_names_of<Enum>());
}

MeshShape read_mesh(ArtifactObject mesh) {
  MeshShape shape;
  shape.pp = mesh.whole("pp", 1, kCount);
  shape.dp_replicate = mesh.whole("dp_replicate", 1, kCount);
  shape.dp_shard = mesh.whole("dp_shard", 1, kCount);
  shape.cp = mesh.whole("cp", 1, kCount);
  shape.ulysses = mesh.whole("ulysses", 1, kCount);
  shape.tp = mesh.whole("tp", 1, kCount);
  shape.ep = mesh.whole("ep", 1, kCount);
  mesh.refuse_unknown();
  return shape;
}

std::optional<StageLayers> read_stage(const Json& json) {
  if (!json.is_array()) return std::nullopt;
  std::vector<std::string> units;
  for (const Json& unit : json) {
    if (!unit.is_string()) return std::nullopt;
    units.push_back(unit.get<std::string>());
  }
  return parse_stage(units);
}

std::vector<StageLayers> read_stages(ArtifactObject& module) {
  const std::string expected =
      R"(a list of stages, each in the order embed, layers, head: [["embed", "0-14"], ["15-27", "head"]])";
  std::vector<StageLayers> stages;
  const Json* list = module.find("stages");
  if (list == nullptr) return stages;
  if (!list->is_array() || list->empty()) module.refuse("stages", expected);
  if (!list->is_array()) return stages;
  for (const Json& item : *list) {
    const std::optional<StageLayers> stage = read_stage(item);
    if (!stage) {
      module.refuse("stages", expected);
      return stages;
    }
    stages.push_back(*stage);
  }
  return stages;
}

ModulePlan read_module(const std::string& name, ArtifactObject json) {
  ModulePlan module{.name = name};
  module.placement = choice<Placement>(json, "placement", Placement::kSeparate);
  const std::string ranks = json.text("ranks", "");
  if (!ranks.empty() || json.has("ranks")) {
    const auto parsed = parse_ranks(ranks);
    if (!parsed) json.refuse("ranks", "ascending ranks and ranges, for example 0-3,8-11");
    module.ranks = parsed.value_or(std::vector<std::int64_t>{});
  }
  module.mesh = read_mesh(json.object("mesh", false));
  module.stages = read_stages(json);
  module.schedule = choice<PipelineOrder>(json, "schedule", PipelineOrder::k1f1b);
  module.recompute = choice<RecomputePlan>(json, "recompute", RecomputePlan::kNone);
  module.recompute_every = json.whole("recompute_every", 1, {1, kMaxEvery});
  module.offload = choice<Offload>(json, "offload", Offload::kNone);
  module.train = choice<TrainMode>(json, "train", TrainMode::kFull);
  module.share_percent = json.whole("share_percent", 100, {1, 100});
  module.passes = json.whole("passes", 1, kCount);
  module.turns = json.flag("turns", false);
  module.ahead = json.flag("ahead", false);
  module.features = choice<FeatureMemory>(json, "features", FeatureMemory::kDevice);
  json.refuse_unknown();
  return module;
}

EdgePlan read_edge(ArtifactObject json) {
  EdgePlan edge{.from = json.text("from", std::nullopt), .to = json.text("to", std::nullopt)};
  edge.via = choice<EdgeVia>(json, "via", EdgeVia::kExchange);
  json.refuse_unknown();
  return edge;
}

BatchPlan read_batch(ArtifactObject json) {
  BatchPlan batch;
  batch.global_samples = json.whole("global_samples", std::nullopt, kCount);
  batch.microbatches = json.whole("microbatches", std::nullopt, kCount);
  batch.capacity_tokens = {json.whole("capacity_tokens", std::nullopt, {1, 1 << 26})};
  batch.packing = choice<Packing>(json, "packing", Packing::kBestFitDecreasing);
  batch.balance = choice<Balance>(json, "balance", Balance::kNone);
  json.refuse_unknown();
  return batch;
}

PredictedPlan read_predicted(ArtifactObject json) {
  PredictedPlan predicted;
  predicted.step = {json.whole("step_ns", 0, kAmount)};
  predicted.lower_bound = {json.whole("lower_bound_ns", 0, kAmount)};
  if (const Json* peaks = json.find("peak_bytes"); peaks != nullptr && peaks->is_object()) {
    ArtifactObject bytes = json.object("peak_bytes", false);
    for (const auto& [module, value] : peaks->items())
      predicted.peak_bytes.emplace_back(module, Bytes{bytes.whole(module, std::nullopt, kAmount)});
  } else if (peaks != nullptr) {
    json.refuse("peak_bytes", "an object of bytes by module");
  }
  predicted.samples = choice<PlannedSamples>(json, "samples", PlannedSamples::kUnknown);
  const bool are_equal = predicted.samples == PlannedSamples::kEqual;
  predicted.sample_tokens = {json.whole("sample_tokens",
                                        are_equal ? std::nullopt : std::optional<std::int64_t>(0),
                                        {are_equal ? 1 : 0, are_equal ? 1 << 26 : 0})};
  json.refuse_unknown();
  return predicted;
}

AdapterPlan read_adapter(ArtifactObject json) {
  AdapterPlan adapter;
  adapter.kind = choice<AdapterKind>(json, "kind", AdapterKind::kLora);
  adapter.rank = json.whole("rank", std::nullopt, kCount);
  const Json* targets = json.find("targets");
  const bool are_texts =
      targets != nullptr && targets->is_array() && !targets->empty() &&
      std::ranges::all_of(*targets, [](const Json& each) { return each.is_string(); });
  if (are_texts)
    adapter.targets = targets->get<std::vector<std::string>>();
  else
    json.refuse("targets", "a list of linear maps, as adapter.targets of a run");
  json.refuse_unknown();
  return adapter;
}

TrainingPlan read_training(ArtifactObject json) {
  TrainingPlan training;
  training.optimizer = choice<OptimizerKind>(json, "optimizer", OptimizerKind::kAdamW);
  training.averages = json.flag("averages", false);
  if (json.has("adapter")) training.adapter = read_adapter(json.object("adapter", true));
  json.refuse_unknown();
  return training;
}

}  // namespace

Plan parse_plan(std::string_view text, const std::string& where) {
  const Json json = parse_json(text, where);
  Problems problems;
  ArtifactObject root(json, where, "", problems);
  const std::string format = root.text("format", std::nullopt);
  if (format != kPlanFormat) {
    // The keys of another format are unknown: problems found so far say nothing.
    TRIB_RAISE(Fault::kInput, .what = "config: not a plan of this version",
               .where = root.where("format"), .found = escaped(format),
               .expected = std::string(kPlanFormat));
  }
  Plan plan;
  for (auto& [name, module] : root.object("modules", true).members())
    plan.modules.push_back(read_module(name, std::move(module)));
  for (ArtifactObject& edge : root.items("edges")) plan.edges.push_back(read_edge(std::move(edge)));
  plan.batch = read_batch(root.object("batch", true));
  plan.predicted = read_predicted(root.object("predicted", false));
  plan.training = read_training(root.object("training", false));
  plan.model = root.text("model", "");
  root.refuse_unknown();
  problems.raise_if_any(where);
  check_plan(plan, where);
  return plan;
}

Plan read_plan(const std::string& path) {
  return parse_plan(read_artifact(path, "a plan, docs/formats/plan.md"), path);
}

}  // namespace tributary::config
