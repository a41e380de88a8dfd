#include "config/plan/plan_of_run.h"

#include <algorithm>
#include <set>

#include "config/family/known_modules.h"
#include "config/run/module_places.h"
#include "config/run/run_config.h"
#include "core/error.h"

namespace tributary::config {
namespace {

/// Adds what a plan leaves out: a module that is not cut has all its layers on one stage.
void fill_stages(Plan& plan, const ModelConfig& model) {
  const std::vector<FrontModule> front = front_modules(model);
  for (ModulePlan& module : plan.modules) {
    if (!module.stages.empty() || module.placement == Placement::kInline) continue;
    if (module.name == kBackboneModule)
      module.stages = {{.embed = true, .layers = model.backbone.layers, .head = true}};
    else if (const auto* own = find_module(front, module.name))
      module.stages = {{.layers = own->layers}};
  }
}

/// Modules of a run with adapters train those, where they are not frozen.
void train_adapters(Plan& plan, const ModelSection& section) {
  for (ModulePlan& module : plan.modules) {
    const bool is_frozen = std::ranges::count(section.freeze, module.name) > 0;
    module.train = is_frozen ? TrainMode::kFrozen : TrainMode::kLora;
  }
}

/// Encoders in front of a backbone whose order puts weight gradients off do so too.
void split_backward_of_encoders(Plan& plan) {
  const PipelineOrder order = plan.find(kBackboneModule)->schedule;
  if (!splits_backward(order)) return;
  for (ModulePlan& module : plan.modules)
    if (module.name != kBackboneModule && module.placement == Placement::kSeparate)
      module.schedule = PipelineOrder::kZbH1;
}

/// The pipeline of the run's `parallel` section; one stage alone has nothing to schedule.
PipelineSection pipeline_section(const ParallelSection& parallel, const MeshShape& shape) {
  PipelineSection section;
  section.vision_stages = parallel.vision_stages;
  section.microbatches = shape.pp - parallel.vision_stages;  // packing finds their number
  if (shape.pp == 1 && count_separate_ranks(parallel) == 0) return section;
  section.schedule = parallel.schedule;
  section.virtual_stages = parallel.virtual_stages;
  const std::int64_t fixed = virtual_stages_of(parallel.schedule);
  const std::int64_t own = parallel.virtual_stages;
  TRIB_REQUIRE(fixed == 0 ? own >= 2 : own == 1 || own == fixed,
               .what = "config: schedule has another number of virtual stages",
               .where = "parallel.virtual_stages", .found = str(own),
               .expected = fixed == 0 ? std::string("2 or more under interleaved") : str(fixed),
               .fix = str("set parallel.virtual_stages to ", fixed == 0 ? 2 : fixed,
                          ", or parallel.schedule to another order"));
  return section;
}

/// Gives the encoders of modules with placement `flow` the numbers behind the ranks of the job.
void number_encoders_last(Plan& plan) {
  std::vector<std::int64_t> order;
  for (const bool flows : {false, true}) {
    std::set<std::int64_t> ranks;
    for (const ModulePlan& module : plan.modules)
      if ((module.placement == Placement::kFlow) == flows)
        ranks.insert(module.ranks.begin(), module.ranks.end());
    order.insert(order.end(), ranks.begin(), ranks.end());
  }
  for (ModulePlan& module : plan.modules)
    for (std::int64_t& rank : module.ranks) rank = std::ranges::find(order, rank) - order.begin();
}

}  // namespace

Plan plan_of_ranks(Plan plan) {
  for (ModulePlan& module : plan.modules) {
    if (module.placement != Placement::kFlow) continue;
    module.placement = Placement::kInline;
    module.ranks.clear();
    module.mesh = {};
    module.stages.clear();
  }
  return plan;
}

Plan plan_of_run(const RunConfig& run, std::int64_t world, const ModelConfig& model) {
  const std::string& path = run.parallel.plan;
  const MeshShape shape = resolve_mesh(run.parallel, world, model);
  Plan plan = path.empty() ? expand_plan(shape, pipeline_section(run.parallel, shape), run, model)
                           : read_plan(path);
  plan.training = training_of(run);
  if (path.empty()) split_backward_of_encoders(plan);
  fill_stages(plan, model);
  if (std::ranges::any_of(plan.modules, [](const ModulePlan& module) {
        return module.placement == Placement::kFlow;
      }))
    number_encoders_last(plan);
  if (run.model.has_adapters()) train_adapters(plan, run.model);
  check_trains(plan, path.empty() ? "plan of the run" : path, run, model);
  return plan;
}

}  // namespace tributary::config
