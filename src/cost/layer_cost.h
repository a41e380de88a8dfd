#pragma once

#include <cstdint>

#include "config/artifact/cluster.h"
#include "config/artifact/module_graph.h"
#include "config/artifact/profile.h"
#include "config/plan/plan.h"
#include "core/units.h"

namespace tributary::cost {

/// The input of one layer in one pass.
struct PassShape {
  double tokens = 0;          // or patches; of all sequences of the microbatch
  double squared_tokens = 0;  // sum of the squared lengths of the sequences
  std::int64_t sequences = 1;

  friend bool operator==(const PassShape&, const PassShape&) = default;
};

/// How the attention core runs: as one fused kernel, or as products with the scores in memory.
enum class AttentionCore { kFused, kScores };

/// How a layer is cut and stored.
struct LayerPlacement {
  std::int64_t tp = 1;
  std::int64_t ep = 1;             // ranks that share the experts and exchange tokens
  bool sequence_parallel = false;  // activations between products are cut over tp too
  AttentionCore attention = AttentionCore::kFused;
  config::Dtype dtype = config::Dtype::kBfloat16;
  std::int64_t optimizer_shards = 1;  // ranks that share the optimizer's state
};

/// What a layer does in backward. A block that trains differentiates its products for the norms in
/// front of them, even if nothing upstream trains.
struct Training {
  bool trains = true;            // its weights get gradients
  bool needs_input_grad = true;  // something upstream trains
};

/// Times and bytes of one layer in one pass of one microbatch, on one rank, without collectives.
struct LayerCost {
  Nanoseconds forward = {};
  Nanoseconds input_gradient = {};
  Nanoseconds weight_gradient = {};
  Nanoseconds recompute = {};            // the forward that full recompute adds
  Nanoseconds recompute_selective = {};  // the forward it adds: the MLP; the attention core where
                                         // its scores are in memory
  Nanoseconds recompute_attention = {};  // the forward that recompute of attention adds
  Nanoseconds attention_forward = {};    // the attention core: part of forward
  Nanoseconds attention_gradient = {};   // its part of the input gradient
  Bytes activation = {};                 // kept for backward without recompute
  Bytes activation_selective = {};       // kept with selective recompute
  Bytes activation_attention = {};       // kept with recompute of attention
  Bytes activation_recomputed = {};      // kept with full recompute: the layer's input
  Bytes parameters = {};
  Bytes expert_parameters = {};   // the part of `parameters` in experts
  Bytes adapter_parameters = {};  // likewise in adapters, beside which the rest is frozen
  Bytes gradients = {};           // 4 bytes each, as they are accumulated
  Bytes optimizer = {};
  Bytes tp_all_reduce = {};         // the buffer of one all-reduce over tp
  std::int64_t tp_all_reduces = 0;  // in forward; the same number in the input gradient
  bool outside_grid = false;        // beyond the measured profile

  /// Bytes kept for backward at a level of recompute.
  [[nodiscard]] Bytes kept(config::RecomputePlan level) const;
  /// The forward that a level of recompute adds.
  [[nodiscard]] Nanoseconds again(config::RecomputePlan level) const;
  /// The part of `parameters` that trains where the layer does.
  [[nodiscard]] Bytes trained_parameters() const {
    return adapter_parameters.count > 0 ? adapter_parameters : parameters;
  }
  LayerCost& operator+=(const LayerCost& other);
  friend bool operator==(const LayerCost&, const LayerCost&) = default;
};

/// Costs by a roofline with saturating efficiency and a floor of host time: see
/// docs/guides/cost_model.md.
///
/// errors: Fault::kInput when a shape is not positive and finite, or tp does not divide the heads
/// cost:   under a microsecond
[[nodiscard]] LayerCost layer_cost(const config::DeviceModel& device,
                                   const config::LayerShape& layer, const PassShape& pass,
                                   const LayerPlacement& placement, Training training = {});

/// Costs by a measured table. Between its points, time is linear and never decreases; beyond them
/// it follows the throughput of the last point, and outside_grid is set. A table that has attention
/// apart adds its time at the lengths of the pass; `pass.squared_tokens` counts the pairs.
///
/// source: docs/theory/planning.md, "Measured tables"
[[nodiscard]] LayerCost layer_cost(const config::ProfileTable& table, Nanoseconds launch,
                                   const PassShape& pass, std::int64_t optimizer_shards = 1,
                                   Training training = {});

/// Whether gradients can leave such a layer at its input: raw inputs have none.
[[nodiscard]] bool has_input_gradient(config::LayerKind kind);

/// Weights of a layer over all ranks: matrices and norms, without biases.
[[nodiscard]] std::int64_t count_layer_parameters(const config::LayerShape& layer);
/// The part of them that belongs to single experts.
[[nodiscard]] std::int64_t count_expert_parameters(const config::LayerShape& layer);

/// Weights that train in a layer, its own or those of its adapters, by the matrices that optimizers
/// treat apart.
struct MatrixWeights {
  std::int64_t all = 0;    // over all ranks
  std::int64_t maps = 0;   // of them in linear maps
  std::int64_t large = 0;  // in matrices of at least config::kFewestQuantised elements
};
[[nodiscard]] MatrixWeights count_trained_matrices(const config::LayerShape& layer);

/// Pairs of items that attend in a block, as if all sequences had the mean length. Causal pairs are
/// counted as the full square, twice their number.
[[nodiscard]] double attended_pairs(const config::LayerShape& layer, const PassShape& pass);

/// Forward FLOPs of one pass, all ranks together.
struct LayerFlops {
  double linear = 0;
  double attention = 0;  // as a full square; causal attention needs half of it
  double mlp = 0;        // the part of `linear` in MLPs
};
[[nodiscard]] LayerFlops count_layer_flops(const config::LayerShape& layer, const PassShape& pass);

/// FLOPs of training over all ranks: forward, and what the layer does in backward.
struct TrainingFlops {
  double causal = 0;    // with the half that causal attention needs
  double full = 0;      // with the full square
  double hardware = 0;  // `causal`, and what recompute adds

  TrainingFlops& operator+=(const TrainingFlops& other);
  friend TrainingFlops operator*(const TrainingFlops& flops, double times);
};
[[nodiscard]] TrainingFlops count_training_flops(const config::LayerShape& layer,
                                                 const PassShape& pass, Training training,
                                                 config::RecomputePlan recompute,
                                                 AttentionCore attention);

/// Bytes that Adam moves per parameter in a step: fp32 weight and two moments read and written, the
/// gradient read, the low-precision weight written.
inline constexpr double kAdamBytesPerParameter = 28;

/// Time of the optimizer over the parameters of a rank.
[[nodiscard]] Nanoseconds optimizer_time(const config::DeviceModel& device, double parameters);

/// Vocabulary of one rank: padded to a multiple of 128 where tp cuts it, as Megatron does.
[[nodiscard]] std::int64_t vocab_of_rank(std::int64_t vocab, std::int64_t tp);

}  // namespace tributary::cost
