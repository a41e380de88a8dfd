#include <algorithm>

#include "config/run/optimizer_state.h"
#include "cost/adapter_cost.h"
#include "cost/layer_cost.h"

namespace tributary::cost {

using config::LayerKind;
using config::LayerShape;

namespace {

/// Weights in a block's matrices, split by whether every token uses them.
struct BlockWeights {
  std::int64_t attention = 0;
  std::int64_t mlp = 0;  // of one expert
  std::int64_t shared = 0;
  std::int64_t router = 0;
};

std::int64_t attention_weights(const LayerShape& layer) {
  const std::int64_t query = layer.heads * layer.head_width;
  const std::int64_t output = layer.heads * layer.value_head_width();
  if (layer.kv_rank == 0) {
    const std::int64_t kv = layer.kv_heads * (layer.head_width + layer.value_head_width());
    return layer.width * (query + output + kv);
  }
  const std::int64_t of_query =
      layer.query_rank > 0 ? layer.query_rank * (layer.width + query) : layer.width * query;
  const std::int64_t unshared = layer.heads * (layer.head_width - layer.rope_width) + output;
  return of_query + layer.width * (layer.kv_rank + layer.rope_width) + layer.kv_rank * unshared +
         output * layer.width;
}

BlockWeights weights_of(const LayerShape& layer) {
  return {.attention = attention_weights(layer),
          .mlp = layer.mlp_matrices * layer.width * layer.mlp_width,
          .shared = layer.mlp_matrices * layer.width * layer.shared_mlp_width,
          .router = layer.width * layer.experts};
}

}  // namespace

std::int64_t count_layer_parameters(const LayerShape& layer) {
  switch (layer.kind) {
    case LayerKind::kBlock: {
      const BlockWeights weights = weights_of(layer);
      return weights.attention + weights.mlp * std::max<std::int64_t>(layer.experts, 1) +
             weights.shared + weights.router + 2 * layer.width + layer.query_rank + layer.kv_rank;
    }
    case LayerKind::kEmbedding:
      return layer.vocab * layer.width;
    case LayerKind::kHead:
      return layer.width + (layer.tied ? 0 : layer.vocab * layer.width);
    case LayerKind::kPatchEmbedding:
    case LayerKind::kConvolution:
      return layer.input_width * layer.width;
    case LayerKind::kProjector:
      if (layer.hidden_width == 0) return layer.input_width * layer.merge * layer.width;
      return layer.input_width * layer.merge * layer.hidden_width +
             layer.hidden_width * layer.width;
  }
  return 0;
}

MatrixWeights count_trained_matrices(const LayerShape& layer) {
  if (layer.adapter.maps > 0) return count_adapter_matrices(layer.adapter);
  MatrixWeights weights{.all = count_layer_parameters(layer)};
  const auto add = [&](std::int64_t rows, std::int64_t columns, std::int64_t count, bool is_map) {
    const std::int64_t all = rows * columns * count;
    if (is_map) weights.maps += all;
    if (rows * columns >= config::kFewestQuantised) weights.large += all;
  };
  const std::int64_t merged = layer.input_width * layer.merge;
  switch (layer.kind) {
    case LayerKind::kBlock: {
      const std::int64_t outputs = layer.heads * layer.value_head_width();
      add(attention_weights(layer) - layer.width * outputs, 1, 1, true);
      add(layer.width, outputs, 1, true);
      add(layer.width, layer.mlp_width,
          layer.mlp_matrices * std::max<std::int64_t>(layer.experts, 1), true);
      add(layer.width, layer.shared_mlp_width, layer.mlp_matrices, true);
      add(layer.width, layer.experts, 1, true);
      break;
    }
    case LayerKind::kEmbedding:
      add(layer.vocab, layer.width, 1, false);
      break;
    case LayerKind::kHead:
      if (!layer.tied) add(layer.vocab, layer.width, 1, false);
      break;
    case LayerKind::kPatchEmbedding:
    case LayerKind::kConvolution:
      add(layer.input_width, layer.width, 1, false);
      break;
    case LayerKind::kProjector:
      add(merged, layer.hidden_width > 0 ? layer.hidden_width : layer.width, 1, true);
      add(layer.hidden_width, layer.width, 1, true);
      break;
  }
  return weights;
}

std::int64_t count_expert_parameters(const LayerShape& layer) {
  if (layer.kind != LayerKind::kBlock || layer.experts == 0) return 0;
  return weights_of(layer).mlp * layer.experts;
}

double attended_pairs(const LayerShape& layer, const PassShape& pass) {
  if (layer.window == 0 || pass.tokens <= 0) return pass.squared_tokens;
  const auto window = static_cast<double>(layer.window);
  if (!layer.causal) return std::min(pass.squared_tokens, pass.tokens * window);
  // In a sequence of length l, the first w items look back over fewer than w: l w - w w / 2 in all.
  // The code below counts twice that.
  const double length = pass.squared_tokens / pass.tokens;
  if (length <= window) return pass.squared_tokens;
  return pass.tokens * window * (2 - window / length);
}

LayerFlops count_layer_flops(const LayerShape& layer, const PassShape& pass) {
  const auto linear = [&](std::int64_t weights, double rows) {
    return 2 * rows * static_cast<double>(weights);
  };
  switch (layer.kind) {
    case LayerKind::kBlock: {
      const BlockWeights weights = weights_of(layer);
      const std::int64_t mlp = weights.mlp * (layer.experts > 0 ? layer.experts_per_token : 1) +
                               weights.shared + weights.router;
      const std::int64_t widths = layer.heads * (layer.head_width + layer.value_head_width());
      return {.linear = linear(mlp + weights.attention, pass.tokens),
              .attention = 2 * attended_pairs(layer, pass) * static_cast<double>(widths),
              .mlp = linear(mlp, pass.tokens)};
    }
    case LayerKind::kEmbedding:
      return {};
    case LayerKind::kHead:
      return {.linear = linear(layer.vocab * layer.width, pass.tokens)};
    case LayerKind::kPatchEmbedding:
    case LayerKind::kConvolution:
      return {.linear = linear(layer.input_width * layer.width,
                               pass.tokens * static_cast<double>(layer.uses))};
    case LayerKind::kProjector:
      return {.linear = linear(count_layer_parameters(layer),
                               pass.tokens / static_cast<double>(layer.merge))};
  }
  return {};
}

TrainingFlops& TrainingFlops::operator+=(const TrainingFlops& other) {
  causal += other.causal;
  full += other.full;
  hardware += other.hardware;
  return *this;
}

TrainingFlops operator*(const TrainingFlops& flops, double times) {
  return {.causal = times * flops.causal,
          .full = times * flops.full,
          .hardware = times * flops.hardware};
}

TrainingFlops count_training_flops(const LayerShape& layer, const PassShape& pass,
                                   Training training, config::RecomputePlan recompute,
                                   AttentionCore attention) {
  const LayerFlops forward = count_layer_flops(layer, pass);
  const double real_attention = layer.causal ? forward.attention / 2 : forward.attention;
  const bool has_backward = training.trains || training.needs_input_grad;
  const bool goes_on = has_backward && has_input_gradient(layer.kind);
  const bool has_adapters = layer.adapter.maps > 0;
  const bool trains_weights = training.trains && !has_adapters;
  double linear = (1 + (goes_on ? 1 : 0) + (trains_weights ? 1 : 0)) * forward.linear;
  if (has_adapters) linear += (training.trains ? 3 : 1) * count_adapter_flops(layer, pass);
  const double times = goes_on ? 3 : 1;
  double again = 0;
  if (has_backward && layer.kind == LayerKind::kBlock) {
    if (recompute == config::RecomputePlan::kFull) again = forward.linear + real_attention;
    if (recompute == config::RecomputePlan::kSelective)
      again = attention == AttentionCore::kScores ? real_attention : forward.mlp;
    if (recompute == config::RecomputePlan::kAttention)
      again = forward.linear - forward.mlp + real_attention;
  }
  const double causal = linear + times * real_attention;
  return {.causal = causal, .full = linear + times * forward.attention, .hardware = causal + again};
}

bool has_input_gradient(LayerKind kind) {
  return kind != LayerKind::kEmbedding && kind != LayerKind::kPatchEmbedding &&
         kind != LayerKind::kConvolution;
}

}  // namespace tributary::cost
