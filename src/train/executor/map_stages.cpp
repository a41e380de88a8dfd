#include "train/executor/map_stages.h"

#include <algorithm>

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

config::Plan plan_of_run(const config::RunConfig& config, const config::MeshShape& shape,
                         const config::ModelConfig& model) {
  config::Plan plan;
  if (config.parallel.plan.empty())
    plan =
        config::expand_plan(shape,
                            {.schedule = config.parallel.schedule,
                             .microbatches = shape.pp,  // packing finds their number in each step
                             .vision_stages = config.parallel.vision_stages,
                             .virtual_stages = config.parallel.virtual_stages},
                            config, model);
  else
    plan = config::read_plan(config.parallel.plan);
  config::check_plan_of_model(
      plan, model, config.parallel.plan.empty() ? "plan of the run" : config.parallel.plan);
  return plan;
}

std::shared_ptr<const parallel::StageMap> map_stages(const config::Plan& plan) {
  const schedule::Pipeline pipeline = schedule::pipeline_of(plan);
  const schedule::PipelineMap map(pipeline);
  const auto is_backbone = [](const schedule::PipelineModule& each) {
    return each.name == "backbone";
  };
  const auto index = std::ranges::find_if(pipeline.modules, is_backbone) - pipeline.modules.begin();
  const config::ModulePlan& backbone = *plan.find("backbone");
  auto stages = std::make_shared<parallel::StageMap>();
  stages->order = backbone.schedule;
  stages->layers = stages_of_tower(plan);
  stages->encoder_stages = stages->size();
  for (int stage = 0; stage < stages->encoder_stages; ++stage) stages->holders.push_back(stage);
  for (int stage = 0; stage < std::ssize(backbone.stages); ++stage) {
    stages->layers.push_back(backbone.stages[static_cast<std::size_t>(stage)]);
    stages->holders.push_back(stages->encoder_stages +
                              map.position_of(static_cast<int>(index), stage).stage);
  }
  return stages;
}

}  // namespace tributary::train
