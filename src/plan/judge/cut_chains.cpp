#include "plan/judge/cut_chains.h"

#include <algorithm>

#include "plan/cut_layers/split_layers.h"

namespace tributary::plan {

std::vector<ChainCut> ChainCutter::cut(const PlanChoice& choice, PlanJudge& judge) {
  std::vector<ChainCut> cuts;
  std::size_t chain = 0;
  for (const std::optional<ChainChoice>& encoder : choice.encoders)
    if (encoder)
      cuts.push_back(cut_chain(judge.costs_of(choice, chain++), *encoder, choice, false));
  cuts.push_back(cut_chain(judge.costs_of(choice, chain), choice.backbone, choice, true));
  return cuts;
}

const ChainCut& ChainCutter::cut_chain(const ChainCosts& costs, const ChainChoice& own,
                                       const PlanChoice& choice, bool is_backbone) {
  const std::int64_t stages = own.mesh.pp * (is_backbone ? choice.chunks : 1);
  const std::int64_t behind = is_backbone ? 0 : choice.backbone.mesh.pp;
  // Only 1F1B keeps fewer microbatches on later stages, as split_layers assumes.
  const bool counts_memory = choice.schedule == config::PipelineOrder::k1f1b;
  const auto [place, is_new] = cuts_.try_emplace(
      Key{&costs, stages, own.replicas(), choice.microbatches, counts_memory ? behind : -1});
  if (!is_new) return place->second;
  const cost::MicrobatchShape shape = part_of(
      batch_, static_cast<double>(own.replicas()) * static_cast<double>(choice.microbatches));
  std::vector<cost::StageCost> priced;
  for (std::size_t each = 0; each < costs.classes(); ++each)
    priced.push_back(costs.cost(each, shape));
  SplitProblem problem{
      .stages = stages, .microbatches = choice.microbatches, .stages_behind = behind};
  // Room for the gathered parameters of any stage: the max over all units.
  Bytes gathered;
  Bytes process;
  Bytes working;
  Bytes boundary;
  for (std::int64_t unit = 0; unit < costs.units(); ++unit) {
    const cost::StageCost& cost = priced[costs.class_of(unit)];
    const cost::StageState& state = costs.state(costs.class_of(unit));
    gathered = std::max(gathered, state.gathered);
    process = std::max(process, state.process);
    working = std::max({working, cost.forward_peak, cost.backward_peak});
    boundary = std::max(boundary, cost.boundary);
    problem.units.push_back({.forward = cost.forward + cost.forward_exposed,
                             .input_gradient = cost.input_gradient + cost.gradient_exposed,
                             .weight_gradient = cost.weight_gradient,
                             .state = state.parameters + state.gradients + state.optimizer,
                             .activation = cost.kept,
                             .activation_selective = cost.kept,
                             .activation_full = cost.kept});
  }
  if (counts_memory)
    problem.memory = problem_.memory() - gathered - process - working - boundary * 4;
  LayerSplit split = split_layers(problem);
  // split_layers counts microbatches in flight with a margin, so the plan may fit all the same,
  // most likely with the cut that holds the least.
  if (split.certificate.status == Status::kInfeasible) {
    problem.memory = min_memory(problem);
    split = split_layers(problem);
  }
  return place->second = std::move(split.first_unit);
}

}  // namespace tributary::plan
