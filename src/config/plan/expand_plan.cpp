#include <algorithm>
#include <numeric>

#include "config/plan/plan.h"
#include "config/run/run_config.h"
#include "core/error.h"

namespace tributary::config {
namespace {

bool has(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// Splits layers as evenly as possible; the first stages take one more each.
std::vector<std::int64_t> split_evenly(std::int64_t layers, std::int64_t stages) {
  std::vector<std::int64_t> split(static_cast<std::size_t>(stages), layers / stages);
  for (std::int64_t i = 0; i < layers % stages; ++i) ++split[i];
  return split;
}

std::vector<StageLayers> cut_layers(const MeshShape& mesh, const PipelineSection& pipeline,
                                    std::int64_t layers) {
  const std::int64_t fixed = virtual_stages_of(pipeline.schedule);
  const std::int64_t stages = mesh.pp * (fixed > 0 ? fixed : pipeline.virtual_stages);
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
                 .where = pipeline.layers_per_stage.empty() ? std::string("parallel.pp")
                                                            : str("parallel.layers_per_stage.", i),
                 .found = str(layers, " layers for ", stages, " virtual stages"),
                 .expected = "at least one each; the first has the embedding, the last the head",
                 .fix = "set fewer stages, or another parallel.schedule");
    if (cut.back().layers == 0) cut.back().first = 0;
  }
  return cut;
}

ModulePlan plan_module(const std::string& name, const RunConfig& run) {
  const bool frozen = has(run.model.freeze, name);
  return {.name = name,
          .recompute = level_of(run.model.recompute, name),
          .offload = run.parallel.offload,
          .train = frozen ? TrainMode::kFrozen : TrainMode::kFull};
}

std::vector<std::int64_t> ranks_from(std::int64_t first, const MeshShape& mesh) {
  std::vector<std::int64_t> ranks(static_cast<std::size_t>(mesh.world()));
  std::iota(ranks.begin(), ranks.end(), first);
  return ranks;
}

/// Places the vision tower on the first `stages` stages of the mesh, with its other degrees.
void place_apart(ModulePlan& vision, const MeshShape& mesh, std::int64_t stages,
                 std::int64_t layers) {
  std::int64_t first = 0;
  for (const std::int64_t own : split_evenly(layers, stages)) {
    vision.stages.push_back({.first = first, .layers = own});
    first += own;
  }
  vision.placement = Placement::kSeparate;
  vision.mesh = mesh;
  vision.mesh.pp = stages;
  vision.ranks = ranks_from(0, vision.mesh);
}

void check_vision_stages(const MeshShape& mesh, const PipelineSection& pipeline,
                         const ModelConfig& model) {
  TRIB_REQUIRE(pipeline.vision_stages == 0 || model.vision,
               .what = "config: model has no vision tower for stages of its own",
               .where = str("parallel.vision_stages = ", pipeline.vision_stages),
               .expected = "0 for a text model", .fix = "set parallel.vision_stages to 0");
  TRIB_REQUIRE(pipeline.vision_stages < mesh.pp,
               .what = "config: no pipeline stage is left for the backbone",
               .where = str("parallel.vision_stages = ", pipeline.vision_stages),
               .found = str("pp ", mesh.pp), .expected = str("a larger parallel.pp"),
               .fix = str("set parallel.pp to ", pipeline.vision_stages + 1, " or more"));
  TRIB_REQUIRE(pipeline.vision_stages == 0 || pipeline.vision_stages <= model.vision->layers,
               .what = "config: vision tower has fewer layers than stages",
               .where = str("parallel.vision_stages = ", pipeline.vision_stages),
               .found = str(model.vision->layers, " layers"), .expected = "at least one each");
}

}  // namespace

Plan expand_plan(const MeshShape& mesh, const PipelineSection& pipeline, const RunConfig& run,
                 const ModelConfig& model) {
  check_vision_stages(mesh, pipeline, model);
  Plan plan;
  ModulePlan backbone = plan_module("backbone", run);
  backbone.mesh = mesh;
  backbone.mesh.pp = mesh.pp - pipeline.vision_stages;
  backbone.ranks = ranks_from(mesh.world() - backbone.mesh.world(), backbone.mesh);
  backbone.stages = cut_layers(backbone.mesh, pipeline, model.backbone.layers);
  backbone.schedule = pipeline.schedule;
  plan.modules.push_back(std::move(backbone));
  if (model.vision) {
    for (const std::string name : {"projector", "vision"}) {
      plan.modules.push_back(plan_module(name, run));
      plan.modules.back().placement = Placement::kInline;
    }
    if (pipeline.vision_stages > 0)
      place_apart(plan.modules.back(), mesh, pipeline.vision_stages, model.vision->layers);
    plan.edges = {{.from = "vision", .to = "projector"}, {.from = "projector", .to = "backbone"}};
  }
  plan.batch = {.global_samples = run.batch.global_samples,
                .microbatches = run.batch.packing == Packing::kLevel ? run.batch.microbatches
                                                                     : pipeline.microbatches,
                .capacity_tokens = run.batch.capacity_tokens,
                .packing = run.batch.packing,
                .balance = run.batch.balance};
  check_plan(plan, "plan of the run");
  return plan;
}

}  // namespace tributary::config
