#include "cost/module_cost.h"

#include <algorithm>

namespace tributary::cost {
namespace {

using config::LayerKind;
using config::RecomputePlan;

Nanoseconds reduction_time(const CostSource& costs, std::int64_t devices_per_node,
                           const LayerCost& cost, std::int64_t tp) {
  if (tp <= 1 || cost.tp_all_reduce.count == 0) return {};
  return costs.collective(config::CollectiveOp::kAllReduce, group_of(tp, 1, devices_per_node),
                          cost.tp_all_reduce) *
         cost.tp_all_reduces;
}

bool trains(const ModuleExecution& execution, const config::LayerShape& shape) {
  return execution.trains && (!execution.trains_adapters || shape.adapter.maps > 0);
}

/// One layer, with the all-reduces over its tp ranks.
ModuleCost cost_of_layer(const CostSource& costs, std::int64_t devices_per_node,
                         const std::string& module, const config::LayerShape& shape,
                         const PassShape& pass, const ModuleExecution& execution,
                         RecomputePlan recompute, bool needs_input_grad) {
  const Training training{.trains = trains(execution, shape), .needs_input_grad = needs_input_grad};
  const LayerCost layer = costs.layer(module, shape, pass, execution.placement, training);
  const bool is_block = shape.kind == LayerKind::kBlock;
  const Nanoseconds reduction =
      reduction_time(costs, devices_per_node, layer, execution.placement.tp);
  ModuleCost cost = {
      .forward = layer.forward + reduction,
      .parameters = layer.parameters,
      .gradients = layer.gradients,
      .reduced = training.trains ? layer.trained_parameters() : Bytes{},
      .optimizer = layer.optimizer,
      .flops = count_training_flops(shape, pass, training, recompute, execution.placement.attention)
                   .causal};
  cost.backward = layer.input_gradient + layer.weight_gradient;
  if (cost.backward.count == 0) return cost;
  if (layer.input_gradient.count > 0) cost.backward += reduction;
  cost.backward += layer.again(recompute);
  if (recompute == RecomputePlan::kFull) cost.backward += reduction;
  if (is_block) cost.kept = layer.kept(recompute);
  cost.transient = layer.activation - cost.kept;
  return cost;
}

}  // namespace

ModuleCost& ModuleCost::operator+=(const ModuleCost& other) {
  forward += other.forward;
  backward += other.backward;
  kept += other.kept;
  transient = std::max(transient, other.transient);
  parameters += other.parameters;
  gradients += other.gradients;
  reduced += other.reduced;
  optimizer += other.optimizer;
  flops += other.flops;
  return *this;
}

ModuleCost operator*(const ModuleCost& cost, std::int64_t times) {
  return {.forward = cost.forward * times,
          .backward = cost.backward * times,
          .kept = cost.kept * times,
          .transient = cost.transient,
          .parameters = cost.parameters * times,
          .gradients = cost.gradients * times,
          .reduced = cost.reduced * times,
          .optimizer = cost.optimizer * times,
          .flops = cost.flops * static_cast<double>(times)};
}

ModuleCost module_cost(const CostSource& costs, std::int64_t devices_per_node,
                       const config::ModuleNode& node, const PassShape& pass,
                       const ModuleExecution& execution) {
  ModuleCost sum;
  bool needs_input_grad = execution.upstream_trains;
  const auto add = [&](const config::LayerShape& shape, RecomputePlan recompute,
                       std::int64_t layers) {
    if (layers == 0) return;
    const auto cost = [&] {
      return cost_of_layer(costs, devices_per_node, node.name, shape, pass, execution, recompute,
                           needs_input_grad);
    };
    sum += cost();
    // All layers after the first are alike.
    needs_input_grad = needs_input_grad || trains(execution, shape);
    if (layers > 1) sum += cost() * (layers - 1);
  };
  std::int64_t block = 0;
  for (const config::LayerRun& run : node.layers) {
    const bool is_block = run.shape.kind == LayerKind::kBlock;
    const std::int64_t again =
        is_block ? config::count_every(execution.recompute_every, block, run.layers) : 0;
    add(run.shape, execution.recompute, again);
    add(run.shape, RecomputePlan::kNone, run.layers - again);
    if (is_block) block += run.layers;
  }
  return sum;
}

ModuleCost module_cost(const config::Cluster& cluster, const config::ModuleNode& node,
                       const PassShape& pass, const ModuleExecution& execution) {
  return module_cost(ClusterCosts(cluster), cluster.devices_per_node(), node, pass, execution);
}

std::int64_t count_blocks(const config::ModuleNode& node) {
  std::int64_t blocks = 0;
  for (const config::LayerRun& run : node.layers)
    if (run.shape.kind == LayerKind::kBlock) blocks += run.layers;
  return blocks;
}

}  // namespace tributary::cost
