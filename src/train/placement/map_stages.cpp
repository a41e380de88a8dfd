#include "train/placement/map_stages.h"

#include <algorithm>

#include "config/plan/plan_names.h"
#include "config/run/module_places.h"
#include "config/run/run_config.h"
#include "core/error.h"
#include "schedule/order/all_orders.h"
#include "schedule/pipeline/pipeline.h"
#include "schedule/pipeline/plan_pipeline.h"

namespace tributary::train {
namespace {

/// Adds what a plan leaves out: a module that is not cut has all its layers on one stage.
void fill_stages(config::Plan& plan, const config::ModelConfig& model) {
  const std::vector<config::FrontModule> front = config::front_modules(model);
  for (config::ModulePlan& module : plan.modules) {
    if (!module.stages.empty() || module.placement == config::Placement::kInline) continue;
    if (module.name == config::kBackboneModule)
      module.stages = {{.embed = true, .layers = model.backbone.layers, .head = true}};
    else if (const auto* own = config::find_module(front, module.name))
      module.stages = {{.layers = own->layers}};
  }
}

/// Of a run with adapters, the modules that are not frozen train those.
void train_adapters(config::Plan& plan, const config::ModelSection& section) {
  for (config::ModulePlan& module : plan.modules) {
    const bool is_frozen = std::ranges::count(section.freeze, module.name) > 0;
    module.train = is_frozen ? config::TrainMode::kFrozen : config::TrainMode::kLora;
  }
}

/// Encoders in front of a backbone whose order puts weight gradients off do so too.
void split_backward_of_encoders(config::Plan& plan) {
  const config::PipelineOrder order = plan.find("backbone")->schedule;
  if (!schedule::traits_of(order).splits_backward) return;
  for (config::ModulePlan& module : plan.modules)
    if (module.name != "backbone" && module.placement == config::Placement::kSeparate)
      module.schedule = config::PipelineOrder::kZbH1;
}

/// Times of a replica tell of the media of its own samples alone.
void check_correction(const config::Plan& plan, const config::BatchSection& batch) {
  if (!batch.correct_costs) return;
  const config::MeshShape& backbone = plan.find("backbone")->mesh;
  const std::int64_t replicas = backbone.dp_replicate * backbone.dp_shard;
  for (const config::ModulePlan& module : plan.modules) {
    if (module.placement == config::Placement::kInline) continue;
    const std::int64_t own = module.mesh.dp_replicate * module.mesh.dp_shard;
    TRIB_REQUIRE(module.placement == config::Placement::kSeparate && own == replicas,
                 .what = "train: costs cannot be corrected where a module encodes for others",
                 .where = "batch.correct_costs",
                 .found = str(module.name, " ", config::plan_name_of(module.placement), ", ", own,
                              " replicas; the backbone has ", replicas),
                 .expected = "inline modules, or separate ones with as many replicas",
                 .fix = "set batch.correct_costs to false");
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

config::Plan plan_of_run(const config::RunConfig& config, std::int64_t world,
                         const config::ModelConfig& model) {
  const std::string& path = config.parallel.plan;
  const config::MeshShape shape = config::resolve_mesh(config.parallel, world, model);
  config::Plan plan =
      path.empty()
          ? config::expand_plan(shape, pipeline_section(config.parallel, shape), config, model)
          : config::read_plan(path);
  plan.training = config::training_of(config);
  if (path.empty()) split_backward_of_encoders(plan);
  fill_stages(plan, model);
  if (config.model.has_adapters()) train_adapters(plan, config.model);
  check_correction(plan, config.batch);
  config::check_trains(plan, path.empty() ? "plan of the run" : path, config, model);
  return plan;
}

std::shared_ptr<const parallel::StageMap> map_stages(const config::Plan& plan,
                                                     const std::string& module) {
  const schedule::Pipeline pipeline = schedule::pipeline_of(plan);
  const schedule::PipelineMap map(pipeline);
  const auto index = static_cast<int>(
      std::ranges::find(pipeline.modules, module, &schedule::PipelineModule::name) -
      pipeline.modules.begin());
  auto stages = std::make_shared<parallel::StageMap>();
  stages->layers = plan.find(module)->stages;
  if (stages->size() <= 1) return nullptr;
  for (int stage = 0; stage < stages->size(); ++stage)
    stages->holders.push_back(map.position_of(index, stage).stage);
  return stages;
}

}  // namespace tributary::train
