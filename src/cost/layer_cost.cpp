#include "cost/layer_cost.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/error.h"
#include "cost/adapter_cost.h"
#include "cost/layer_passes.h"

namespace tributary::cost {
namespace {

using config::LayerKind;
using config::LayerShape;

/// The sizes of a block on one rank; fractions where tp does not divide them.
struct BlockSizes {
  double width, query, keys, values, output, mlp, shared_mlp;
  double between;  // width of activations between products: cut by sequence parallelism
};

BlockSizes sizes_of(const LayerShape& layer, const LayerPlacement& placement) {
  const auto tp = static_cast<double>(placement.tp);
  const auto head_width = static_cast<double>(layer.head_width);
  const auto value_width = static_cast<double>(layer.value_head_width());
  const auto width = static_cast<double>(layer.width);
  const double kv_heads = std::max(static_cast<double>(layer.kv_heads) / tp, 1.0);
  return {.width = width,
          .query = static_cast<double>(layer.heads) * head_width / tp,
          .keys = kv_heads * head_width,
          .values = kv_heads * value_width,
          .output = static_cast<double>(layer.heads) * value_width / tp,
          .mlp = static_cast<double>(layer.mlp_width) / tp,
          .shared_mlp = static_cast<double>(layer.shared_mlp_width) / tp,
          .between = placement.sequence_parallel ? width / tp : width};
}

/// Adds a block's attention with the scores and their softmax in memory.
void add_scores(LayerPasses& passes, const config::DeviceModel& device, double flops, double scores,
                bool is_fused_softmax) {
  // Passes over the scores: products write and read them; softmax and dropout come in between.
  const double extra = is_fused_softmax ? 0 : 4;
  for (DeviceWork* work : {&passes.forward, &passes.core}) {
    work->add_core(flops, device.matrix_share, 2 * scores);
    work->add_bytes((4.5 + extra) * scores);
    work->add_kernels(5 + (is_fused_softmax ? 0 : 8));
  }
  for (DeviceWork* work : {&passes.input_gradient, &passes.core_gradient}) {
    work->add_core(2 * flops, device.matrix_share, 4 * scores);
    work->add_bytes((5.5 + extra) * scores);
    work->add_kernels(8 + (is_fused_softmax ? 0 : 16));
  }
}

void add_fused_attention(LayerPasses& passes, const config::DeviceModel& device, double flops,
                         bool causal, double bytes) {
  const double work = causal ? flops / 2 : flops;
  for (DeviceWork* each : {&passes.forward, &passes.core}) {
    each->add_core(work, device.attention_share, bytes);
    each->add_kernels(1);
  }
  // Backward computes the scores again: five products instead of two.
  for (DeviceWork* each : {&passes.input_gradient, &passes.core_gradient}) {
    each->add_core(2.5 * work, device.attention_share, 2 * bytes);
    each->add_kernels(2);
  }
}

void add_mlp(LayerPasses& passes, const LayerShape& layer, const BlockSizes& sizes, double tokens,
             double bytes, double ep) {
  const double up = static_cast<double>(layer.mlp_matrices - 1);
  const auto add_linear = [&](double rows, double in, double out, double count) {
    passes.add_linear(rows, in, out, bytes, count);
    passes.mlp.add_product(rows, out, in, bytes, count);
  };
  const auto add = [&](double rows, double mlp, double count) {
    add_linear(rows, sizes.width, up * mlp, count);
    add_linear(rows, mlp, sizes.width, count);
    for (DeviceWork* work : {&passes.forward, &passes.mlp})
      work->add_bytes(bytes * rows * count * mlp * (up + 1));
    passes.input_gradient.add_bytes(bytes * rows * count * mlp * (2 * up + 2));
  };
  // The norm of the MLP, which reads the residual.
  passes.mlp.add_bytes(2 * bytes * tokens * sizes.between);
  passes.mlp.add_kernels(2);
  if (layer.experts == 0) return add(tokens, sizes.mlp, 1);
  const auto experts = static_cast<double>(layer.experts);
  add_linear(tokens, sizes.width, experts, 1);
  // Each of its experts gets the tokens that all ep ranks send to it.
  add(ep * tokens * static_cast<double>(layer.experts_per_token) / experts, sizes.mlp,
      experts / ep);
  if (layer.shared_mlp_width > 0) add(tokens, sizes.shared_mlp, 1);
}

/// Adds the projections of queries, keys, values and output. Every tp rank computes the whole
/// latents; the heads made from them are cut.
void add_projections(LayerPasses& passes, const LayerShape& layer, const BlockSizes& sizes,
                     double tokens, double bytes) {
  const auto query_rank = static_cast<double>(layer.query_rank);
  const auto kv_rank = static_cast<double>(layer.kv_rank);
  const auto rope = static_cast<double>(layer.rope_width);
  if (layer.kv_rank == 0) {
    passes.add_linear(tokens, sizes.width, sizes.query + sizes.keys + sizes.values, bytes);
  } else {
    const double unshared = sizes.keys * (1 - rope / static_cast<double>(layer.head_width));
    if (layer.query_rank > 0) passes.add_linear(tokens, sizes.width, query_rank, bytes);
    passes.add_linear(tokens, layer.query_rank > 0 ? query_rank : sizes.width, sizes.query, bytes);
    passes.add_linear(tokens, sizes.width, kv_rank + rope, bytes);
    passes.add_linear(tokens, kv_rank, unshared + sizes.values, bytes);
  }
  passes.add_linear(tokens, sizes.output, sizes.width, bytes);
}

/// The number of scores in memory: those outside of a causal window are masked, not left out.
double scores_of(const LayerShape& layer, const PassShape& pass) {
  return layer.causal ? pass.squared_tokens : attended_pairs(layer, pass);
}

void add_block(LayerPasses& passes, const config::DeviceModel& device, const LayerShape& layer,
               const PassShape& pass, const LayerPlacement& placement) {
  const BlockSizes sizes = sizes_of(layer, placement);
  const double bytes = element_bytes(placement.dtype);
  const double tokens = pass.tokens;
  add_projections(passes, layer, sizes, tokens, bytes);
  add_mlp(passes, layer, sizes, tokens, bytes, static_cast<double>(placement.ep));

  const auto flops_of = [&](double pairs) { return 2 * pairs * (sizes.query + sizes.output); };
  if (placement.attention == AttentionCore::kScores) {
    const double pairs = scores_of(layer, pass);
    const double heads = static_cast<double>(layer.heads) / static_cast<double>(placement.tp);
    // Megatron's fused softmax needs rows in groups of four.
    const bool fused = std::fmod(heads * static_cast<double>(pass.sequences), 4.0) == 0;
    add_scores(passes, device, flops_of(pairs), bytes * heads * pairs, fused);
  } else {
    add_fused_attention(passes, device, flops_of(attended_pairs(layer, pass)), layer.causal,
                        bytes * tokens * (sizes.query + sizes.keys + sizes.values + sizes.output));
  }
  // Element-wise kernels: two norms, two residual sums with bias and dropout, copies of heads.
  passes.forward.add_bytes(bytes * tokens * (11 * sizes.between + 2 * sizes.query));
  passes.forward.add_kernels(7);
  passes.input_gradient.add_bytes(bytes * tokens * (17 * sizes.between + 8 * sizes.query));
  passes.input_gradient.add_kernels(12);
  passes.weight_gradient.add_bytes(bytes * tokens *
                                   (6 * sizes.between + 3 * sizes.query + sizes.mlp));
  passes.weight_gradient.add_kernels(14);
  if (placement.tp > 1) {
    passes.forward.add_kernels(3);
    passes.input_gradient.add_kernels(3);
  }
}

void add_embedding(LayerPasses& passes, const LayerShape& layer, const PassShape& pass,
                   const LayerPlacement& placement) {
  const double bytes = element_bytes(placement.dtype);
  const auto width = static_cast<double>(layer.width);
  passes.forward.add_bytes(3 * bytes * pass.tokens * width);
  passes.forward.add_kernels(3);
  // A dense gradient is cleared, then added to the sum so far.
  const double table = static_cast<double>(vocab_of_rank(layer.vocab, placement.tp)) * width;
  passes.weight_gradient.add_bytes(bytes * (3 * pass.tokens * width + 4 * table));
  passes.weight_gradient.add_kernels(4);
}

void add_head(LayerPasses& passes, const config::DeviceModel& device, const LayerShape& layer,
              const PassShape& pass, const LayerPlacement& placement) {
  const double bytes = element_bytes(placement.dtype);
  const auto vocab = static_cast<double>(vocab_of_rank(layer.vocab, placement.tp));
  passes.add_linear(pass.tokens, static_cast<double>(layer.width), vocab, bytes);
  const double traffic = device.logit_bytes * pass.tokens * vocab;
  passes.forward.add_bytes(0.6 * traffic);
  passes.forward.add_kernels(8);
  passes.input_gradient.add_bytes(0.4 * traffic);
  passes.input_gradient.add_kernels(4);
}

void add_projector(LayerPasses& passes, const LayerShape& layer, const PassShape& pass,
                   const LayerPlacement& placement) {
  const double bytes = element_bytes(placement.dtype);
  const auto tp = static_cast<double>(placement.tp);
  const double rows = pass.tokens / static_cast<double>(layer.merge);
  const double in = static_cast<double>(layer.input_width * layer.merge);
  const auto out = static_cast<double>(layer.width);
  if (layer.hidden_width == 0) {
    passes.add_linear(rows, in, out / tp, bytes);
  } else {
    const double hidden = static_cast<double>(layer.hidden_width) / tp;
    passes.add_linear(rows, in, hidden, bytes);
    passes.add_linear(rows, hidden, out, bytes);
    passes.forward.add_bytes(2 * bytes * rows * hidden);
    passes.input_gradient.add_bytes(3 * bytes * rows * hidden);
  }
  passes.forward.add_kernels(2);
  passes.input_gradient.add_kernels(2);
}

/// Bytes kept for backward, by level of recompute.
struct Kept {
  double all = 0, selective = 0, attention = 0, input = 0;
};

Kept kept_of(const LayerShape& layer, const PassShape& pass, const LayerPlacement& placement) {
  const double bytes = element_bytes(placement.dtype);
  const double tokens = pass.tokens;
  if (layer.kind == LayerKind::kHead) {
    const auto vocab = static_cast<double>(vocab_of_rank(layer.vocab, placement.tp));
    const double kept = bytes * tokens * static_cast<double>(layer.width) + 4 * tokens * vocab;
    return {kept, kept, kept, kept};
  }
  if (layer.kind == LayerKind::kEmbedding) return {8 * tokens, 8 * tokens, 8 * tokens, 8 * tokens};
  if (layer.kind != LayerKind::kBlock) {
    const double kept = bytes * tokens * static_cast<double>(layer.uses) *
                        static_cast<double>(std::max(layer.input_width, std::int64_t{1}) +
                                            2 * layer.hidden_width / layer.merge);
    return {kept, kept, kept, kept};
  }
  const BlockSizes sizes = sizes_of(layer, placement);
  const double routed =
      layer.experts > 0
          ? static_cast<double>(layer.experts_per_token) * sizes.mlp + sizes.shared_mlp
          : sizes.mlp;
  // Experts also keep the tokens dispatched to them, and the outputs that routing weights multiply.
  const double dispatched =
      layer.experts > 0 ? 2 * static_cast<double>(layer.experts_per_token) * sizes.between : 0;
  // The MLP keeps its normalised input and the activations between its matrices.
  const double mlp =
      bytes * tokens *
      (sizes.between + dispatched + static_cast<double>(layer.mlp_matrices) * routed);
  const double others = bytes * tokens *
                        (4 * sizes.between + sizes.query + sizes.keys + sizes.values +
                         sizes.output + static_cast<double>(layer.query_rank + layer.kv_rank));
  const double input = bytes * tokens * sizes.between;
  // Where attention runs again, the inputs of both halves of the layer stay.
  const double halves = 2 * input + mlp;
  if (placement.attention == AttentionCore::kFused) return {others + mlp, others, halves, input};
  const double heads = static_cast<double>(layer.heads) / static_cast<double>(placement.tp);
  const double scores = (2 * bytes + 1) * heads * scores_of(layer, pass);
  return {others + mlp + scores, others + mlp, halves, input};
}

void check(const LayerShape& layer, const PassShape& pass, const LayerPlacement& placement) {
  TRIB_REQUIRE(std::isfinite(pass.tokens) && pass.tokens >= 0 &&
                   std::isfinite(pass.squared_tokens) && pass.squared_tokens >= 0,
               .what = "cost: pass of an impossible size",
               .found = str(pass.tokens, " tokens, ", pass.squared_tokens, " squared"),
               .expected = "finite numbers from 0");
  TRIB_REQUIRE(placement.tp >= 1 && placement.optimizer_shards >= 1,
               .what = "cost: layer is cut into no part", .found = str("tp ", placement.tp));
  TRIB_REQUIRE(placement.ep >= 1 && (layer.experts == 0 || layer.experts % placement.ep == 0),
               .what = "cost: experts do not divide over the ep ranks",
               .found = str(layer.experts, " experts, ep ", placement.ep),
               .expected = "experts to be a multiple of ep");
  TRIB_REQUIRE(layer.width >= 1 && layer.merge >= 1, .what = "cost: layer without a width",
               .found = str("width ", layer.width, ", merge ", layer.merge));
  if (layer.kind != LayerKind::kBlock) return;
  TRIB_REQUIRE(layer.heads >= 1 && layer.heads % placement.tp == 0,
               .what = "cost: heads do not divide over the tp ranks",
               .found = str(layer.heads, " heads, tp ", placement.tp),
               .expected = "heads to be a multiple of tp");
}

Bytes rounded(double bytes) { return {std::llround(std::ceil(bytes))}; }

}  // namespace

std::int64_t vocab_of_rank(std::int64_t vocab, std::int64_t tp) {
  constexpr std::int64_t kMultiple = 128;
  if (tp == 1) return vocab;
  return (vocab + kMultiple * tp - 1) / (kMultiple * tp) * kMultiple;
}

Nanoseconds optimizer_time(const config::DeviceModel& device, double parameters) {
  return {std::llround(1e9 * kAdamBytesPerParameter * parameters /
                       (device.memory_bytes_per_s * device.memory_share))};
}

// By the order of the levels.
Bytes LayerCost::kept(config::RecomputePlan level) const {
  const std::array all{activation, activation_selective, activation_recomputed,
                       activation_attention};
  return all[static_cast<std::size_t>(level)];
}

Nanoseconds LayerCost::again(config::RecomputePlan level) const {
  const std::array all{Nanoseconds{}, recompute_selective, recompute, recompute_attention};
  return all[static_cast<std::size_t>(level)];
}

LayerCost& LayerCost::operator+=(const LayerCost& other) {
  forward += other.forward;
  input_gradient += other.input_gradient;
  weight_gradient += other.weight_gradient;
  recompute += other.recompute;
  recompute_selective += other.recompute_selective;
  recompute_attention += other.recompute_attention;
  attention_forward += other.attention_forward;
  attention_gradient += other.attention_gradient;
  activation += other.activation;
  activation_selective += other.activation_selective;
  activation_attention += other.activation_attention;
  activation_recomputed += other.activation_recomputed;
  parameters += other.parameters;
  expert_parameters += other.expert_parameters;
  adapter_parameters += other.adapter_parameters;
  gradients += other.gradients;
  optimizer += other.optimizer;
  tp_all_reduce = std::max(tp_all_reduce, other.tp_all_reduce);
  tp_all_reduces += other.tp_all_reduces;
  outside_grid = outside_grid || other.outside_grid;
  return *this;
}

LayerCost layer_cost(const config::DeviceModel& device, const LayerShape& layer,
                     const PassShape& pass, const LayerPlacement& placement, Training training) {
  check(layer, pass, placement);
  LayerCost cost;
  const double bytes = element_bytes(placement.dtype);
  const auto tp = static_cast<double>(placement.tp);
  const auto all = static_cast<double>(count_layer_parameters(layer));
  const auto of_experts = static_cast<double>(count_expert_parameters(layer));
  const double own_experts = of_experts / tp / static_cast<double>(placement.ep);
  const double own = (all - of_experts) / tp + own_experts;
  const double adapters = adapters_of_rank(layer.adapter, placement.tp);
  cost.parameters = rounded(bytes * (own + adapters));
  cost.expert_parameters = rounded(bytes * own_experts);
  cost.adapter_parameters = rounded(bytes * adapters);
  if (training.trains) {
    const double trained = layer.adapter.maps > 0 ? adapters : own;
    cost.gradients = rounded(4 * trained);
    // Two moments, and a fp32 weight where the weight itself has low precision.
    const double state = placement.dtype == config::Dtype::kFloat32 ? 8 : 12;
    cost.optimizer = rounded(state * trained / static_cast<double>(placement.optimizer_shards));
  }
  if (pass.tokens == 0) return cost;

  LayerPasses passes(device);
  switch (layer.kind) {
    case LayerKind::kBlock:
      add_block(passes, device, layer, pass, placement);
      break;
    case LayerKind::kEmbedding:
      add_embedding(passes, layer, pass, placement);
      break;
    case LayerKind::kHead:
      add_head(passes, device, layer, pass, placement);
      break;
    case LayerKind::kPatchEmbedding:
    case LayerKind::kConvolution:
      passes.add_linear(pass.tokens * static_cast<double>(layer.uses),
                        static_cast<double>(layer.input_width), static_cast<double>(layer.width),
                        bytes);
      break;
    case LayerKind::kProjector:
      add_projector(passes, layer, pass, placement);
      break;
  }
  if (layer.adapter.maps > 0) add_adapters(passes, device, layer, pass, placement);
  cost.forward = passes.forward.time();
  cost.recompute = cost.forward;
  const bool keeps_scores = placement.attention == AttentionCore::kScores;
  cost.recompute_selective = keeps_scores ? passes.core.time() : passes.mlp.time();
  cost.recompute_attention = cost.forward - passes.mlp.time();
  cost.attention_forward = passes.core.time();
  // Norms are in front of the products, so training them needs gradients that far.
  const bool has_backward = training.needs_input_grad || training.trains;
  const bool has_input_grad = has_backward && has_input_gradient(layer.kind);
  if (has_input_grad) {
    cost.input_gradient = passes.input_gradient.time();
    cost.attention_gradient = passes.core_gradient.time();
  }
  if (training.trains) cost.weight_gradient = passes.weight_gradient.time();
  if (has_backward) {
    const Kept kept = kept_of(layer, pass, placement);
    const double of_adapters = kept_by_adapters(layer, pass, placement);
    cost.activation = rounded(kept.all + of_adapters);
    cost.activation_selective = rounded(kept.selective + of_adapters);
    cost.activation_attention = rounded(kept.attention + of_adapters);
    cost.activation_recomputed = rounded(kept.input);
  }
  if (placement.tp > 1 && layer.kind != LayerKind::kPatchEmbedding &&
      layer.kind != LayerKind::kConvolution) {
    const double rows = pass.tokens / static_cast<double>(layer.merge);
    cost.tp_all_reduce = rounded(bytes * rows * static_cast<double>(layer.width));
    cost.tp_all_reduces = layer.kind == LayerKind::kBlock ? 2 : 1;
  }
  return cost;
}

}  // namespace tributary::cost
