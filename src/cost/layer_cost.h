#pragma once

#include <cstdint>

#include "config/artifact/cluster.h"
#include "config/artifact/module_graph.h"
#include "config/artifact/profile.h"
#include "config/plan/plan.h"
#include "core/units.h"

namespace tributary::cost {

/// What one layer works on in one pass.
struct PassShape {
  double tokens = 0;          // or patches; of all sequences of the microbatch
  double squared_tokens = 0;  // sum of the squared lengths of the sequences that attend
  std::int64_t sequences = 1;

  friend bool operator==(const PassShape&, const PassShape&) = default;
};

/// How the attention core runs: one fused kernel, or products with the scores in memory between.
enum class AttentionCore { kFused, kScores };

/// How a layer is cut and stored.
struct LayerPlacement {
  std::int64_t tp = 1;
  std::int64_t ep = 1;             // ranks that share the experts and exchange tokens
  bool sequence_parallel = false;  // what lies between the products is cut over tp too
  AttentionCore attention = AttentionCore::kFused;
  config::Dtype dtype = config::Dtype::kBfloat16;
  std::int64_t optimizer_shards = 1;  // ranks that share the optimizer's state
};

/// What a layer does in backward. A block that trains differentiates its products for the norms in
/// front of them, whether or not something upstream trains.
struct Training {
  bool trains = true;            // its weights get gradients
  bool needs_input_grad = true;  // something upstream of it trains
};

/// Times and bytes of one layer in one pass of one microbatch, on one rank, without collectives.
struct LayerCost {
  Nanoseconds forward = {};
  Nanoseconds input_gradient = {};
  Nanoseconds weight_gradient = {};
  Nanoseconds recompute = {};            // the forward that full recompute adds
  Nanoseconds recompute_selective = {};  // the MLP alone; the attention core with its scores in
                                         // memory
  Nanoseconds attention_forward = {};    // the attention core: part of forward
  Nanoseconds attention_gradient = {};   // likewise of the input gradient
  Bytes activation = {};                 // kept for backward, nothing recomputed
  Bytes activation_selective = {};       // the same with selective recompute
  Bytes activation_recomputed = {};      // with full recompute: the layer's input
  Bytes parameters = {};
  Bytes expert_parameters = {};  // part of them
  Bytes gradients = {};          // as they are summed up: 4 bytes each
  Bytes optimizer = {};
  Bytes tp_all_reduce = {};         // the buffer of one all-reduce over tp
  std::int64_t tp_all_reduces = 0;  // in forward; as many in the input gradient
  bool outside_grid = false;        // of the measured profile

  LayerCost& operator+=(const LayerCost& other);
  friend bool operator==(const LayerCost&, const LayerCost&) = default;
};

/// Costs by roofline with saturating efficiency and a floor of host time:
/// docs/guides/cost_model.md.
///
/// errors: Fault::kInput when a shape is not positive and finite, or tp does not divide the heads
/// cost:   under a microsecond
[[nodiscard]] LayerCost layer_cost(const config::DeviceModel& device,
                                   const config::LayerShape& layer, const PassShape& pass,
                                   const LayerPlacement& placement, Training training = {});

/// Costs by a measured table; between its points linear in time and never decreasing; beyond them
/// at the throughput of the last, with outside_grid set.
///
/// source: docs/theory/planning.md, "Measured tables"
[[nodiscard]] LayerCost layer_cost(const config::ProfileTable& table, Nanoseconds launch,
                                   const PassShape& pass, std::int64_t optimizer_shards = 1,
                                   Training training = {});

/// Whether gradients can go on in front of such a layer: raw inputs have none.
[[nodiscard]] bool has_input_gradient(config::LayerKind kind);

/// Weights of a layer, all ranks together: matrices and norms, biases left out.
[[nodiscard]] std::int64_t count_layer_parameters(const config::LayerShape& layer);
/// Those of them that belong to single experts.
[[nodiscard]] std::int64_t count_expert_parameters(const config::LayerShape& layer);

/// Pairs of items that attend in a block, sequences as long as they are in the mean of their
/// tokens. Causal ones are counted as the full square, twice as many as there are.
[[nodiscard]] double attended_pairs(const config::LayerShape& layer, const PassShape& pass);

/// Forward FLOPs of one pass, all ranks together.
struct LayerFlops {
  double linear = 0;
  double attention = 0;  // the full square; causal work is half of it
  double mlp = 0;        // the share of `linear` in MLPs
};
[[nodiscard]] LayerFlops count_layer_flops(const config::LayerShape& layer, const PassShape& pass);

/// FLOPs of training, all ranks together: forward, and in backward what the layer does there.
struct TrainingFlops {
  double causal = 0;    // of causal attention the half that is there
  double full = 0;      // the whole square of it
  double hardware = 0;  // `causal`, and what runs again

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

/// Vocabulary of one rank: padded to a multiple of 128 where it is cut, as Megatron does.
[[nodiscard]] std::int64_t vocab_of_rank(std::int64_t vocab, std::int64_t tp);

}  // namespace tributary::cost
