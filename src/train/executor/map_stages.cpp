#include "train/executor/map_stages.h"

#include "config/run/module_places.h"
#include "config/run/run_config.h"
#include "core/error.h"
#include "schedule/pipeline/pipeline.h"
#include "schedule/pipeline/plan_pipeline.h"

namespace tributary::train {
namespace {

/// The layers of the pipeline stages that hold the vision tower and nothing else.
std::vector<config::StageLayers> stages_of_tower(const config::Plan& plan) {
  const config::ModulePlan* vision = plan.find("vision");
  const bool is_apart = vision != nullptr && vision->placement == config::Placement::kSeparate;
  return is_apart ? vision->stages : std::vector<config::StageLayers>{};
}

}  // namespace

namespace {

/// Adds what a plan leaves out: a module that is not cut has all its layers on one stage.
void fill_stages(config::Plan& plan, const config::ModelConfig& model) {
  for (config::ModulePlan& module : plan.modules) {
    if (!module.stages.empty() || module.placement == config::Placement::kInline) continue;
    if (module.name == "backbone")
      module.stages = {{.embed = true, .layers = model.backbone.layers, .head = true}};
    if (module.name == "vision" && model.vision) module.stages = {{.layers = model.vision->layers}};
  }
}

/// The pipeline of the run's `parallel` section; one stage alone has nothing to schedule.
config::PipelineSection pipeline_section(const config::ParallelSection& parallel,
                                         const config::MeshShape& shape) {
  config::PipelineSection section;
  section.vision_stages = parallel.vision_stages;
  section.microbatches = shape.pp - parallel.vision_stages;  // packing finds their number
  if (shape.pp == 1 && config::count_separate_ranks(parallel) == 0) return section;
  section.schedule = parallel.schedule;
  section.virtual_stages = parallel.virtual_stages;
  const std::int64_t fixed = config::virtual_stages_of(parallel.schedule);
  const std::int64_t own = parallel.virtual_stages;
  TRIB_REQUIRE(fixed == 0 ? own >= 2 : own == 1 || own == fixed,
               .what = "config: schedule has another number of virtual stages",
               .where = "parallel.virtual_stages", .found = str(own),
               .expected = fixed == 0 ? std::string("2 or more under interleaved") : str(fixed),
               .fix = str("set parallel.virtual_stages to ", fixed == 0 ? 2 : fixed,
                          ", or parallel.schedule to another order"));
  return section;
}

}  // namespace

config::Plan plan_of_run(const config::RunConfig& config, const config::MeshShape& shape,
                         const config::ModelConfig& model) {
  const std::string& path = config.parallel.plan;
  config::Plan plan =
      path.empty()
          ? config::expand_plan(shape, pipeline_section(config.parallel, shape), config, model)
          : config::read_plan(path);
  fill_stages(plan, model);
  config::check_trainer_limits(plan, path.empty() ? "plan of the run" : path);
  config::check_plan_of_model(plan, model, path.empty() ? "plan of the run" : path);
  return plan;
}

std::shared_ptr<const parallel::StageMap> map_stages(const config::Plan& plan) {
  const schedule::Pipeline pipeline = schedule::pipeline_of(plan);
  const schedule::PipelineMap map(pipeline);
  const auto index = static_cast<int>(schedule::backbone_of(pipeline));
  const config::ModulePlan& backbone = *plan.find("backbone");
  auto stages = std::make_shared<parallel::StageMap>();
  stages->order = backbone.schedule;
  stages->layers = stages_of_tower(plan);
  stages->encoder_stages = stages->size();
  for (int stage = 0; stage < stages->encoder_stages; ++stage) stages->holders.push_back(stage);
  for (int stage = 0; stage < std::ssize(backbone.stages); ++stage) {
    stages->layers.push_back(backbone.stages[static_cast<std::size_t>(stage)]);
    stages->holders.push_back(stages->encoder_stages + map.position_of(index, stage).stage);
  }
  return stages;
}

}  // namespace tributary::train
