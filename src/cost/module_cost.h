#pragma once

#include "config/artifact/cluster.h"
#include "config/artifact/module_graph.h"
#include "config/plan/plan.h"
#include "cost/cost_source.h"

namespace tributary::cost {

/// How all layers of a module run.
struct ModuleExecution {
  LayerPlacement placement = {};
  config::RecomputePlan recompute = config::RecomputePlan::kFull;  // of blocks
  std::int64_t recompute_every = 1;                                // whose number it divides
  bool trains = true;
  bool trains_adapters = false;  // of the layers that have some, and nothing else
  bool upstream_trains = false;  // something in front of the module trains
};

/// Costs of all layers of a module in one pass of one microbatch, on each of its tp ranks. The
/// all-reduces of tp are not hidden.
struct ModuleCost {
  Nanoseconds forward = {};
  Nanoseconds backward = {};  // both gradients, and recompute
  Bytes kept = {};            // by the blocks, for backward
  Bytes transient = {};       // on top, in the layer that needs the most while it runs
  Bytes parameters = {};
  Bytes gradients = {};  // in the dtype they are held in
  Bytes reduced = {};    // in the dtype they are sent in: that of the weights
  Bytes optimizer = {};
  double flops = 0;  // forward and gradients, without recompute; all ranks, causal

  [[nodiscard]] Nanoseconds time() const { return forward + backward; }
  [[nodiscard]] Bytes state() const { return parameters + gradients + optimizer; }
  ModuleCost& operator+=(const ModuleCost& other);
  friend ModuleCost operator*(const ModuleCost& cost, std::int64_t times);
};

/// devices_per_node: tp ranks are next to each other in a node
/// errors: Fault::kInput as the source
/// cost:   microseconds
[[nodiscard]] ModuleCost module_cost(const CostSource& costs, std::int64_t devices_per_node,
                                     const config::ModuleNode& node, const PassShape& pass,
                                     const ModuleExecution& execution);
/// As above, by the cluster's device and links.
[[nodiscard]] ModuleCost module_cost(const config::Cluster& cluster, const config::ModuleNode& node,
                                     const PassShape& pass, const ModuleExecution& execution);

/// The number of transformer blocks of a module.
[[nodiscard]] std::int64_t count_blocks(const config::ModuleNode& node);

}  // namespace tributary::cost
