#include "plan/chains/chain_costs.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "config/family/known_modules.h"
#include "schedule/pipeline/plan_pipeline.h"

namespace tributary::plan {
namespace {

using config::LayerKind;
using config::ModuleNode;

/// A cut with every unit on a virtual stage of its own.
ChainCut one_by_one(std::int64_t units) {
  ChainCut cut(static_cast<std::size_t>(units) + 1);
  std::iota(cut.begin(), cut.end(), 0);
  return cut;
}

/// The shape of each block: the index of the first run with that shape. Runs repeat few shapes.
std::vector<int> shapes_of_blocks(const ModuleNode& node) {
  std::vector<int> shapes;
  for (const config::LayerRun& run : node.layers) {
    if (run.shape.kind != LayerKind::kBlock) continue;
    const auto first =
        std::find_if(node.layers.begin(), node.layers.end(),
                     [&](const config::LayerRun& other) { return other.shape == run.shape; });
    shapes.insert(shapes.end(), static_cast<std::size_t>(run.layers),
                  static_cast<int>(first - node.layers.begin()));
  }
  return shapes;
}

/// One chain of a choice, priced as if its ranks were the first of the cluster: all chains together
/// need not fit there.
struct LoneChain {
  const ModuleNode* node = nullptr;
  int module = 0;  // of the pipeline
  std::unique_ptr<cost::LayerStageCosts> costs = {};
};

/// cut_of: returns a cut for the units of a module
template <class CutOf>
LoneChain price_alone(const PlanningProblem& problem, const PlanChoice& choice, std::size_t chain,
                      const CutOf& cut_of, bool apart) {
  PlanChoice alone = choice;
  std::vector<const ModuleNode*> nodes;
  const std::vector<const ModuleNode*> encoders = encoders_of(problem);
  for (std::size_t i = 0; i < encoders.size(); ++i) {
    if (!alone.encoders[i]) continue;
    // The other chains only matter for the features that flow from them.
    if (nodes.size() != chain) alone.encoders[i] = ChainChoice{};
    alone.encoders[i]->mesh.pp = 1;
    alone.encoders[i]->passes = 0;  // which ranks it shares does not matter either
    nodes.push_back(encoders[i]);
  }
  if (nodes.size() != chain) alone.backbone = {.mesh = {}, .recompute = alone.backbone.recompute};
  alone.backbone.mesh.pp = 1;
  nodes.push_back(problem.model.find(config::kBackboneModule));
  alone.schedule = config::PipelineOrder::k1f1b;
  alone.microbatches = 1;
  std::vector<ChainCut> cuts;
  for (const ModuleNode* node : nodes) cuts.push_back(cut_of(units_of(*node)));
  config::Plan plan = to_plan(problem, alone, cuts);
  for (config::ModulePlan& module : plan.modules)
    std::iota(module.ranks.begin(), module.ranks.end(), 0);
  const schedule::Pipeline pipeline = schedule::pipeline_of(plan);
  LoneChain lone{.node = nodes[chain]};
  while (pipeline.modules[lone.module].name != lone.node->name) ++lone.module;
  cost::LayerExecution execution = problem.execution;
  execution.apart = apart;
  lone.costs = std::make_unique<cost::LayerStageCosts>(plan, problem.model, problem.cluster,
                                                       problem.costs(), pipeline, execution);
  return lone;
}

}  // namespace

ChainCosts::ChainCosts(const PlanningProblem& problem, const PlanChoice& choice, std::size_t chain,
                       bool is_cut) {
  LoneChain lone = price_alone(problem, choice, chain, one_by_one, is_cut);
  module_ = lone.module;
  costs_ = std::move(lone.costs);
  each_stage_ = problem.costs()->microbatch(/*has_loss=*/false);

  const ModuleNode& node = *lone.node;
  const bool has_ends = node.name == config::kBackboneModule;
  const std::vector<int> shapes = shapes_of_blocks(node);
  const std::int64_t units = units_of(node);
  constexpr int kFirst = -1, kLast = -2, kFirstBlock = -3;
  std::map<int, int> known;  // from shape, or a key of its own, to class
  for (std::int64_t unit = 0; unit < units; ++unit) {
    const std::int64_t block = unit - (has_ends ? 1 : 0);
    int key = kFirst;
    if (unit == units - 1) {
      key = kLast;
    } else if (unit > 0) {
      // The first block of a module without inline encoders may differ: where something is frozen,
      // its input may need no gradient.
      key = block == 0 && !problem.frozen.empty() ? kFirstBlock : shapes[block];
    }
    const auto [found, is_new] = known.try_emplace(key, static_cast<int>(first_of_.size()));
    if (is_new) first_of_.push_back(unit);
    class_of_.push_back(found->second);
  }
  for (const std::int64_t unit : first_of_)
    states_.push_back(costs_->state(module_, static_cast<int>(unit)));
}

cost::StageCost ChainCosts::cost(std::size_t unit_class, const cost::MicrobatchShape& shape) const {
  cost::StageCost cost = costs_->cost(module_, static_cast<int>(first_of_[unit_class]), shape);
  cost.forward -= each_stage_;
  return cost;
}

std::vector<std::int64_t> ChainCosts::count(std::int64_t first, std::int64_t end) const {
  std::vector<std::int64_t> counts(classes(), 0);
  for (std::int64_t unit = first; unit < end; ++unit) ++counts[class_of_[unit]];
  return counts;
}

cost::StageState state_on_one_stage(const PlanningProblem& problem, const PlanChoice& choice,
                                    std::size_t chain) {
  const auto whole = [](std::int64_t units) { return ChainCut{0, units}; };
  const LoneChain lone = price_alone(problem, choice, chain, whole, /*apart=*/false);
  return lone.costs->state(lone.module, 0);
}

cost::StageCost cost_of_stage(const ChainCosts& chain, std::span<const cost::StageCost> class_costs,
                              std::span<const std::int64_t> counts, int last_class) {
  cost::StageCost sum;
  sum.forward = chain.each_stage();
  for (std::size_t i = 0; i < class_costs.size(); ++i) {
    if (counts[i] == 0) continue;
    const cost::StageCost& each = class_costs[i];
    sum.forward += each.forward * counts[i];
    sum.input_gradient += each.input_gradient * counts[i];
    sum.weight_gradient += each.weight_gradient * counts[i];
    sum.forward_exposed += each.forward_exposed * counts[i];
    sum.gradient_exposed += each.gradient_exposed * counts[i];
    sum.kept += each.kept * counts[i];
    sum.kept_after_input_gradient += each.kept_after_input_gradient * counts[i];
    sum.forward_peak = std::max(sum.forward_peak, each.forward_peak);
    sum.backward_peak = std::max(sum.backward_peak, each.backward_peak);
    sum.outside_grid = sum.outside_grid || each.outside_grid;
  }
  sum.boundary = class_costs[last_class].boundary;
  return sum;
}

}  // namespace tributary::plan
