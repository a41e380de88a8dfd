#pragma once

#include <cstdint>
#include <string>

#include "config/cluster.h"
#include "config/module_graph.h"
#include "config/profile.h"
#include "core/units.h"

namespace tributary::plan {

/// What one layer works on in one pass.
struct PassShape {
  double tokens = 0;          // or patches; of all sequences of the microbatch
  double squared_tokens = 0;  // sum of the squared lengths of the sequences that attend
  std::int64_t sequences = 1;
};

/// How a layer is cut and stored.
struct LayerPlacement {
  std::int64_t tp = 1;
  bool sequence_parallel = false;  // activations between the products are cut over tp too
  config::Dtype dtype = config::Dtype::kBfloat16;
  std::int64_t optimizer_shards = 1;  // ranks that share gradients and optimizer state
};

/// What a layer does in backward.
struct Training {
  bool trains = true;            // its weights get gradients
  bool needs_input_grad = true;  // something upstream of it trains
};

/// Times and bytes of one layer in one pass of one microbatch, on one rank, without collectives.
struct LayerCost {
  Nanoseconds forward = {};
  Nanoseconds input_gradient = {};
  Nanoseconds weight_gradient = {};
  Nanoseconds recompute = {};        // the forward that full recompute adds
  Bytes activation = {};             // kept for backward, nothing recomputed
  Bytes activation_selective = {};   // the same with the attention core recomputed
  Bytes activation_recomputed = {};  // with full recompute: the layer's input
  Bytes parameters = {};
  Bytes gradients = {};
  Bytes optimizer = {};
  Bytes tp_all_reduce = {};         // one all-reduce over tp: of one pass, `tp_all_reduces` of them
  std::int64_t tp_all_reduces = 0;  // in forward; as many in the input gradient
  bool outside_grid = false;        // of the measured profile

  LayerCost& operator+=(const LayerCost& other);
  friend bool operator==(const LayerCost&, const LayerCost&) = default;
};

/// Costs by roofline with saturating efficiency.
///
/// errors: Fault::kInput when a shape is not positive and finite, or tp does not divide heads
[[nodiscard]] LayerCost layer_cost(const config::DeviceModel& device,
                                   const config::LayerShape& layer, const PassShape& pass,
                                   const LayerPlacement& placement, Training training = {});

/// Costs by a measured table; between its points linear in time, monotone; beyond it constant
/// throughput with outside_grid set.
[[nodiscard]] LayerCost layer_cost(const config::ProfileTable& table, Nanoseconds launch,
                                   const PassShape& pass, Training training = {});

/// Number of parameters of a layer, all ranks together.
[[nodiscard]] std::int64_t count_layer_parameters(const config::LayerShape& layer);

/// Forward FLOPs of one pass, all ranks together.
struct LayerFlops {
  double linear = 0;
  double attention = 0;  // the full square; causal work is half of it
};
[[nodiscard]] LayerFlops count_layer_flops(const config::LayerShape& layer, const PassShape& pass);

}  // namespace tributary::plan
