#include <algorithm>
#include <numeric>

#include "config/plan.h"
#include "core/error.h"

namespace tributary::config {
namespace {

bool has(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// As even as can be; the first stages take what is left over.
std::vector<std::int64_t> split_evenly(std::int64_t layers, std::int64_t stages) {
  std::vector<std::int64_t> split(static_cast<std::size_t>(stages), layers / stages);
  for (std::int64_t i = 0; i < layers % stages; ++i) ++split[i];
  return split;
}

std::vector<StageLayers> cut_layers(const MeshShape& mesh, const PipelineSection& pipeline,
                                    std::int64_t layers) {
  const std::int64_t fixed = virtual_stages_of(pipeline.schedule);
  const std::int64_t stages = mesh.pp * std::max(fixed, pipeline.virtual_stages);
  std::vector<std::int64_t> split = pipeline.layers_per_stage;
  if (split.empty()) split = split_evenly(layers, stages);
  TRIB_REQUIRE(
      std::ssize(split) == stages, .what = "config: layers are not given for each stage",
      .where = "parallel.layers_per_stage", .found = str(split.size(), " numbers"),
      .expected = str(stages, ": pp ", mesh.pp, " times ", stages / mesh.pp, " virtual stages"));
  const std::int64_t sum = std::accumulate(split.begin(), split.end(), std::int64_t{0});
  TRIB_REQUIRE(sum == layers && *std::min_element(split.begin(), split.end()) >= 0,
               .what = "config: layers of the stages do not add up to the model",
               .where = "parallel.layers_per_stage", .found = str(sum), .expected = str(layers));
  std::vector<StageLayers> cut;
  std::int64_t first = 0;
  for (std::int64_t i = 0; i < stages; ++i) {
    cut.push_back({.embed = i == 0, .first = first, .layers = split[i], .head = i + 1 == stages});
    first += split[i];
    TRIB_REQUIRE(!cut.back().empty(), .what = "config: stage has no layer",
                 .where = str("parallel.layers_per_stage.", i), .found = "0",
                 .expected = "at least 1; the first stage has the embedding, the last the head");
    if (cut.back().layers == 0) cut.back().first = 0;
  }
  return cut;
}

ModulePlan plan_module(const std::string& name, const RunConfig& run) {
  const bool recomputed = has(run.model.recompute, name);
  const bool frozen = has(run.model.freeze, name);
  return {.name = name,
          .recompute = recomputed ? RecomputePlan::kFull : RecomputePlan::kNone,
          .offload = run.parallel.offload,
          .train = frozen ? TrainMode::kFrozen : TrainMode::kFull};
}

}  // namespace

Plan expand_plan(const MeshShape& mesh, const PipelineSection& pipeline, const RunConfig& run,
                 const ModelConfig& model) {
  Plan plan;
  ModulePlan backbone = plan_module("backbone", run);
  backbone.ranks.resize(static_cast<std::size_t>(mesh.world()));
  std::iota(backbone.ranks.begin(), backbone.ranks.end(), 0);
  backbone.mesh = mesh;
  backbone.stages = cut_layers(mesh, pipeline, model.backbone.layers);
  backbone.schedule = pipeline.schedule;
  plan.modules.push_back(std::move(backbone));
  if (model.vision) {
    for (const std::string name : {"projector", "vision"}) {
      plan.modules.push_back(plan_module(name, run));
      plan.modules.back().placement = Placement::kInline;
    }
    plan.edges = {{.from = "vision", .to = "projector"}, {.from = "projector", .to = "backbone"}};
  }
  plan.batch = {.global_samples = run.batch.global_samples,
                .microbatches = pipeline.microbatches,
                .capacity_tokens = run.batch.capacity_tokens,
                .packing = run.batch.packing};
  check_plan(plan, "plan of the run");
  return plan;
}

}  // namespace tributary::config
