#include "studies/methods/module_tables.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"

namespace tributary::studies {
namespace {

using config::LayerKind;
using config::ModuleNode;

constexpr double kGridStep = 1.41421356;  // factor between the shapes of a table

/// Adds heads to blocks whose heads do not divide, as padding would.
ModuleNode pad_heads(ModuleNode node, std::int64_t tp) {
  for (config::LayerRun& run : node.layers) {
    const auto padded = [tp](std::int64_t heads) { return (heads + tp - 1) / tp * tp; };
    run.shape.heads = padded(run.shape.heads);
    run.shape.kv_heads = padded(run.shape.kv_heads);
  }
  return node;
}

bool can_cut(const ModuleNode& node, std::int64_t tp) {
  return std::all_of(node.layers.begin(), node.layers.end(), [tp](const config::LayerRun& run) {
    return run.shape.kind != LayerKind::kBlock ||
           (run.shape.heads % tp == 0 && run.shape.kv_heads % tp == 0);
  });
}

double share(std::int64_t part, std::int64_t whole) {
  return static_cast<double>(part) / static_cast<double>(whole);
}

double seconds(const cost::ModuleCost& cost) { return seconds_of(cost.time()); }

cost::PassShape pass_of(const ModulePart& part, double shape) {
  const double units = shape * part.unit;
  return {.tokens = units,
          .squared_tokens = units * std::min(part.attended, units),
          .sequences = std::max<std::int64_t>(1, std::llround(units / part.attended))};
}

/// Throughput from FLOPs that grow with the shape: FLOPs over throughput is the time.
template <class CostAt>
Throughput table(const CostAt& cost_at, double flops_of_shape, std::int64_t tp, double min,
                 double max) {
  std::vector<Throughput::Point> points;
  for (double shape = min; points.empty() || points.back().shape < max; shape *= kGridStep) {
    const double time = seconds(cost_at(shape));
    points.push_back({shape, flops_of_shape * shape / (time * static_cast<double>(tp))});
  }
  return Throughput::table(std::move(points));
}

}  // namespace

bool is_projector(const ModuleNode& node) {
  return std::all_of(node.layers.begin(), node.layers.end(), [](const config::LayerRun& run) {
    return run.shape.kind == LayerKind::kProjector;
  });
}

double features_of_tile(const ModulePart& part) {
  const config::LayerShape& last = part.nodes.back()->layers.back().shape;
  const bool is_merged = is_projector(*part.nodes.back());
  return part.unit / static_cast<double>(is_merged ? last.merge : 1) *
         static_cast<double>(last.width);
}

ModuleCosts ModuleTables::make(const std::vector<ModulePart>& parts, bool upstream_trains,
                               double mean, double min, double max) const {
  ModuleCosts costs;
  costs.layers = 0;
  for (const ModulePart& part : parts) {
    costs.name += (costs.name.empty() ? "" : " + ") + part.nodes.front()->name;
    for (const ModuleNode* node : part.nodes) costs.layers += cost::count_blocks(*node);
  }
  costs.layers = std::max<std::int64_t>(costs.layers, 1);
  costs.sample_shape = mean;
  const bool is_backbone = costs.name == "backbone";
  for (std::int64_t tp = 1; tp <= cluster_.devices_per_node(); tp *= 2) {
    if (is_backbone && !can_cut(*parts.front().nodes.front(), tp)) continue;
    if (!has_costs(parts, tp)) continue;
    const auto cost_at = [&](double shape) {
      cost::ModuleCost all;
      for (const ModulePart& part : parts) all += cost_of(part, shape, tp, upstream_trains);
      return all;
    };
    const cost::ModuleCost at_mean = cost_at(mean);
    if (costs.degrees.empty()) {
      costs.sample_flops = at_mean.flops;
      costs.forward_share = share(at_mean.forward.count, at_mean.time().count);
      costs.gradient_share = share(at_mean.reduced.count, at_mean.state().count);
      costs.parameter_share = share(at_mean.parameters.count, at_mean.state().count);
      if (setting_.shard_optimizer)
        costs.sharded_share = share(at_mean.optimizer.count, at_mean.state().count);
    }
    DegreeCosts degree = {.tp = tp};
    degree.throughput = table(cost_at, costs.sample_flops / mean, tp, min, max);
    degree.state_bytes = static_cast<double>(at_mean.state().count);
    degree.activation_bytes = kept_of(parts, at_mean, mean, costs.layers);
    degree.transient_bytes = static_cast<double>(at_mean.transient.count) / mean;
    costs.degrees.push_back(std::move(degree));
  }
  if (costs.degrees.empty()) refuse_unknown(costs.name);
  return costs;
}

cost::ModuleCost ModuleTables::cost_of(const ModulePart& part, double shape, std::int64_t tp,
                                       bool upstream_trains) const {
  return cost_of(part, pass_of(part, shape), tp, upstream_trains);
}

double ModuleTables::flops_of(const ModulePart& part, double shape) const {
  return cost_of(part, shape, min_tp(part), false).flops;
}

double ModuleTables::attention_share(const ModulePart& part, double shape) const {
  const std::int64_t tp = min_tp(part);
  cost::PassShape pass = pass_of(part, shape);
  const double once = seconds(cost_of(part, pass, tp, false));
  // Doubles it; attention within windows does not grow with length.
  pass.squared_tokens *= 2;
  return seconds(cost_of(part, pass, tp, false)) / once - 1;
}

cost::ModuleCost ModuleTables::cost_of(const ModulePart& part, const cost::PassShape& pass,
                                       std::int64_t tp, bool upstream_trains) const {
  cost::ModuleCost sum;
  for (const ModuleNode* node : part.nodes) {
    const bool trains = this->trains(*node);
    sum += cost::module_cost(
        *costs_, cluster_.devices_per_node(), pad_heads(*node, tp), pass,
        {.placement = {.tp = tp, .sequence_parallel = setting_.sequence_parallel && tp > 1},
         .recompute = setting_.recompute,
         .trains = trains,
         .upstream_trains = upstream_trains});
    upstream_trains = upstream_trains || trains;
  }
  return sum;
}

bool ModuleTables::trains(const ModuleNode& node) const {
  return std::find(setting_.frozen.begin(), setting_.frozen.end(), node.name) ==
         setting_.frozen.end();
}

std::int64_t ModuleTables::min_tp(const ModulePart& part) const {
  for (std::int64_t tp = 1; tp <= cluster_.devices_per_node(); tp *= 2)
    if (has_costs({part}, tp)) return tp;
  refuse_unknown(part.nodes.front()->name);
}

void ModuleTables::refuse_unknown(const std::string& module) const {
  TRIB_RAISE(Fault::kInput, .what = "studies: costs of a module are not known",
             .where = str("module ", module), .found = costs_->degrees(),
             .expected = "layers of each of its kinds, measured at one degree at least",
             .fix = "measure them: tributary profile");
}

bool ModuleTables::has_costs(const std::vector<ModulePart>& parts, std::int64_t tp) const {
  if (tp > 1 && !costs_->has_collective(config::CollectiveOp::kAllReduce, tp)) return false;
  return std::all_of(parts.begin(), parts.end(), [&](const ModulePart& part) {
    return std::all_of(part.nodes.begin(), part.nodes.end(), [&](const ModuleNode* node) {
      const ModuleNode padded = pad_heads(*node, tp);
      return std::all_of(padded.layers.begin(), padded.layers.end(),
                         [&](const config::LayerRun& run) {
                           return run.layers == 0 || costs_->has_layer(padded.name, run.shape, tp);
                         });
    });
  });
}

/// Bytes of a layer for each tile or token; of a module without backward, those of its features.
double ModuleTables::kept_of(const std::vector<ModulePart>& parts, const cost::ModuleCost& cost,
                             double mean, std::int64_t layers) const {
  double features = 0;
  for (const ModulePart& part : parts) {
    const config::LayerShape& last = part.nodes.back()->layers.back().shape;
    features += costs_->value_bytes() * part.unit / static_cast<double>(last.merge) *
                static_cast<double>(last.width) / static_cast<double>(layers);
  }
  return std::max(static_cast<double>(cost.kept.count) / (mean * static_cast<double>(layers)),
                  features);
}

}  // namespace tributary::studies
