#include <algorithm>
#include <numeric>

#include "config/family/known_modules.h"
#include "config/plan/plan.h"
#include "config/run/module_places.h"
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
  const ModuleRecompute again = recompute_of(run.model.recompute, name);
  return {.name = name,
          .recompute = again.level,
          .recompute_every = again.every,
          .offload = run.parallel.offload,
          .train = frozen ? TrainMode::kFrozen : TrainMode::kFull};
}

/// Cuts the layers of an encoder as evenly as possible.
std::vector<StageLayers> cut_encoder(std::int64_t layers, std::int64_t stages) {
  std::vector<StageLayers> cut;
  std::int64_t first = 0;
  for (const std::int64_t own : split_evenly(layers, stages)) {
    cut.push_back({.first = first, .layers = own});
    first += own;
  }
  return cut;
}

/// The place of the tower of `parallel.vision_stages`: the first ranks of the mesh, and its
/// degrees.
ModulePlace first_stages_of(const std::vector<std::int64_t>& ranks, MeshShape mesh,
                            std::int64_t stages) {
  mesh.pp = stages;
  return {.name = std::string(kStagedModule),
          .ranks = {ranks.begin(), ranks.begin() + mesh.world()},
          .mesh = mesh};
}

void check_vision_stages(const MeshShape& mesh, const PipelineSection& pipeline,
                         const FrontModule* tower) {
  if (pipeline.vision_stages == 0) return;
  const std::string where = str("parallel.vision_stages = ", pipeline.vision_stages);
  TRIB_REQUIRE(tower != nullptr, .what = "config: model has no vision tower for stages of its own",
               .where = where, .expected = "0 for a text model",
               .fix = "set parallel.vision_stages to 0");
  TRIB_REQUIRE(pipeline.vision_stages < mesh.pp,
               .what = "config: no pipeline stage is left for the backbone", .where = where,
               .found = str("pp ", mesh.pp), .expected = str("a larger parallel.pp"),
               .fix = str("set parallel.pp to ", pipeline.vision_stages + 1, " or more"));
  TRIB_REQUIRE(pipeline.vision_stages <= tower->layers,
               .what = "config: vision tower has fewer layers than stages", .where = where,
               .found = str(tower->layers, " layers"), .expected = "at least one each");
}

/// The places of all modules, with the tower of `parallel.vision_stages` among them.
RunPlaces places_of(const MeshShape& mesh, const PipelineSection& pipeline, const RunConfig& run,
                    std::span<const FrontModule> front) {
  Problems problems;
  RunPlaces places = place_modules(run.parallel, mesh, front, problems);
  problems.raise_if_any("plan of the run");
  if (pipeline.vision_stages == 0) return places;
  places.modules.push_back(first_stages_of(places.ranks, mesh, pipeline.vision_stages));
  const auto own = places.ranks.begin();
  places.ranks.erase(own, own + places.modules.back().mesh.world());
  return places;
}

/// The number of microbatches in the plan of a run. Packing finds it later, unless they are level;
/// until then it must only hold the passes of every module.
std::int64_t microbatches_of(const PipelineSection& pipeline, const RunConfig& run) {
  if (run.batch.packing == Packing::kLevel) return run.batch.microbatches;
  std::int64_t passes = 1;
  for (const ModuleSection& section : run.parallel.modules)
    passes = std::max(passes, section.passes);
  return (passes + pipeline.microbatches - 1) / pipeline.microbatches * pipeline.microbatches;
}

ModulePlan plan_front(const FrontModule& module, const ModulePlace* place, const RunConfig& run) {
  ModulePlan plan = plan_module(module.name, run);
  plan.placement = Placement::kInline;
  if (place == nullptr) return plan;
  plan.placement = place->placement;
  plan.ranks = place->ranks;
  plan.mesh = place->mesh;
  plan.stages = cut_encoder(module.layers, place->mesh.pp);
  plan.passes = place->passes;
  plan.turns = place->turns;
  plan.ahead = place->ahead;
  plan.features = place->features;
  return plan;
}

}  // namespace

Plan expand_plan(const MeshShape& mesh, const PipelineSection& pipeline, const RunConfig& run,
                 const ModelConfig& model) {
  const std::vector<FrontModule> front = front_modules(model);
  check_vision_stages(mesh, pipeline, find_module(front, kStagedModule));
  const RunPlaces places = places_of(mesh, pipeline, run, front);
  Plan plan;
  ModulePlan backbone = plan_module(std::string(kBackboneModule), run);
  backbone.mesh = mesh;
  backbone.mesh.pp = mesh.pp - pipeline.vision_stages;
  backbone.ranks = places.ranks;
  backbone.stages = cut_layers(backbone.mesh, pipeline, model.backbone.layers);
  backbone.schedule = pipeline.schedule;
  plan.modules.push_back(std::move(backbone));
  for (const FrontModule& module : front) {
    plan.modules.push_back(plan_front(module, places.find(module.name), run));
    const bool flows = plan.modules.back().placement == Placement::kFlow;
    plan.edges.push_back({.from = module.name,
                          .to = module.feeds,
                          .via = flows ? EdgeVia::kPool : EdgeVia::kExchange});
  }
  std::ranges::sort(plan.modules, {}, &ModulePlan::name);
  plan.batch = {.global_samples = run.batch.global_samples,
                .microbatches = microbatches_of(pipeline, run),
                .capacity_tokens = run.batch.capacity_tokens,
                .packing = run.batch.packing,
                .balance = run.batch.balance};
  plan.training = training_of(run);
  check_plan(plan, "plan of the run");
  return plan;
}

}  // namespace tributary::config
