#include "train/executor/step_schedule.h"

#include "schedule/order/all_orders.h"
#include "schedule/pipeline/count_rounds.h"
#include "schedule/pipeline/lower_schedule.h"

namespace tributary::train {
namespace {

/// The tower's stages, where it has some, feed those of the backbone: a lane for each pp
/// coordinate.
schedule::Pipeline pipeline_of(const model::Model& model) {
  const parallel::Layout& layout = model.layout();
  const std::vector<bool> trains = trained_stages(model);
  const auto first = trains.begin() + layout.first_of_backbone();
  schedule::PipelineModule backbone{.name = "backbone"};
  backbone.trains.assign(first, trains.end());
  schedule::Pipeline pipeline;
  if (layout.stages) {
    const int towers = layout.stages->encoder_stages;
    backbone.order = layout.stages->order;
    backbone.stages = static_cast<int>(layout.mesh->shape().pp) - towers;
    backbone.chunks = (layout.stages->size() - towers) / backbone.stages;
    if (towers > 0) {
      schedule::PipelineModule vision{.name = "vision", .stages = towers};
      if (schedule::traits_of(backbone.order).splits_backward)
        vision.order = config::PipelineOrder::kZbH1;
      vision.trains.assign(trains.begin(), first);
      pipeline.modules.push_back(std::move(vision));
      pipeline.edges.push_back({.from = 0, .to = 1});
    }
  }
  pipeline.modules.push_back(std::move(backbone));
  return pipeline;
}

}  // namespace

std::vector<bool> trained_stages(const model::Model& model) {
  std::vector<bool> trains(static_cast<std::size_t>(model.layout().virtual_stages()));
  for (const auto& unit : model.units())
    if (unit->trainable()) trains[static_cast<std::size_t>(unit->layout().virtual_stage)] = true;
  return trains;
}

StepSchedule schedule_step(const model::Model& model, std::int64_t microbatches) {
  schedule::Pipeline pipeline = pipeline_of(model);
  pipeline.microbatches = schedule::count_rounds(pipeline, static_cast<std::size_t>(microbatches));
  schedule::Schedule lowered = schedule::lower_schedule(
      schedule::schedule_passes(pipeline), {.receive = kBuffersOfALink, .send = kBuffersOfALink});
  const auto lane = static_cast<std::size_t>(model.layout().mesh->at().pp);
  return {.actions = std::move(lowered.lists[lane]), .in_flight = lowered.in_flight[lane]};
}

}  // namespace tributary::train
