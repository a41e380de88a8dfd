#include "cost/stages/stage_costs.h"

#include <algorithm>

#include "cost/stages/stage_parts.h"

namespace tributary::cost {

struct LayerStageCosts::Placed {
  StageRules rules;
  std::vector<std::vector<PlacedStage>> stages;  // [modules of the pipeline][virtual stages]
  std::vector<std::vector<StageState>> states;   // the same indices
  std::vector<ModuleRanks> ranks;                // [modules of the pipeline]
};

namespace {

/// All ranks of a plan in which something trains; otherwise one rank.
CommunicationGroup ranks_of(const config::Plan& plan, const config::Cluster& cluster) {
  std::vector<std::int64_t> ranks;
  bool trains = false;
  for (const config::ModulePlan& module : plan.modules) {
    ranks.insert(ranks.end(), module.ranks.begin(), module.ranks.end());
    trains = trains || module.train != config::TrainMode::kFrozen;
  }
  std::ranges::sort(ranks);
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return trains ? group_of(cluster, ranks) : CommunicationGroup{};
}

}  // namespace

LayerStageCosts::LayerStageCosts(const config::Plan& plan, const config::ModuleGraph& model,
                                 const config::Cluster& cluster, const schedule::Pipeline& pipeline,
                                 const LayerExecution& execution)
    : LayerStageCosts(plan, model, cluster, std::make_shared<ClusterCosts>(cluster), pipeline,
                      execution) {}

LayerStageCosts::LayerStageCosts(const config::Plan& plan, const config::ModuleGraph& model,
                                 const config::Cluster& cluster,
                                 std::shared_ptr<const CostSource> source,
                                 const schedule::Pipeline& pipeline,
                                 const LayerExecution& execution) {
  auto placed = std::make_shared<Placed>();
  placed->stages = place_layers(plan, model, cluster, pipeline, execution.apart);
  StageRules& rules = placed->rules;
  rules.source = std::move(source);
  rules.execution = execution;
  rules.training = plan.training;
  // An encoder on ranks of its own also counts as a stage of the trainer's pipeline.
  int coordinates = 0;
  for (const schedule::PipelineModule& module : pipeline.modules) {
    const config::MeshShape& mesh = plan.find(module.name)->mesh;
    placed->ranks.push_back({.replicas = mesh.dp_replicate * mesh.dp_shard,
                             .of_lane = mesh.cp * mesh.ulysses * mesh.tp});
    coordinates += module.stages;
  }
  rules.is_cut = execution.apart || coordinates > 1;
  rules.plan_ranks = ranks_of(plan, cluster);
  const auto tokens = static_cast<double>(plan.batch.capacity_tokens.count);
  rules.full_microbatch = {.tokens = tokens, .squared_tokens = tokens * tokens};
  for (const std::vector<PlacedStage>& module : placed->stages) {
    std::vector<StageState>& states = placed->states.emplace_back();
    for (const PlacedStage& stage : module) states.push_back(state_of(stage, rules));
  }
  placed_ = std::move(placed);
}

StageCost LayerStageCosts::cost(int module, int virtual_stage, const MicrobatchShape& shape) const {
  return cost_of_passes(placed_->stages[module][virtual_stage], shape, placed_->rules);
}

StageFlops LayerStageCosts::flops(int module, int virtual_stage,
                                  const MicrobatchShape& shape) const {
  return flops_of_passes(placed_->stages[module][virtual_stage], shape,
                         placed_->rules.execution.attention);
}

StageState LayerStageCosts::state(int module, int virtual_stage) const {
  return placed_->states[module][virtual_stage];
}

bool LayerStageCosts::works_on(int module, Media media) const {
  return std::ranges::any_of(placed_->stages[module], [media](const PlacedStage& stage) {
    return std::ranges::any_of(stage.runs, [media](const PlacedRun& run) {
      return !run.is_backbone && run.media == media;
    });
  });
}

ModuleRanks LayerStageCosts::ranks(int module) const { return placed_->ranks[module]; }

}  // namespace tributary::cost
