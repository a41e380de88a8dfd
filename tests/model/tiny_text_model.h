#pragma once

#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include <ATen/ATen.h>

#include "core/random.h"
#include "model/model.h"

namespace tributary::model {

/// A model of real structure and small numbers; no two sizes are equal.
inline config::ModelConfig tiny_config(config::ModelFamily family) {
  config::ModelConfig config;
  config.family = family;
  config.backbone = {.layers = 2,
                     .width = 24,
                     .heads = 4,
                     .kv_heads = 2,
                     .head_width = family == config::ModelFamily::kQwen3 ? 10 : 6,
                     .mlp_width = 40,
                     .vocab = 61,
                     .max_positions = 128,
                     .rope_theta = 1e4,
                     .norm_epsilon = 1e-6,
                     .qkv_bias = family == config::ModelFamily::kQwen2,
                     .qk_norm = family == config::ModelFamily::kQwen3,
                     .tied_head = family == config::ModelFamily::kQwen3,
                     .mrope_section = {},
                     .initializer_range = 0.3};
  return config;
}

/// The same numbers as a Qwen2.5-VL.
inline config::ModelConfig tiny_vision_model() {
  config::ModelConfig config = tiny_config(config::ModelFamily::kQwen2);
  config.family = config::ModelFamily::kQwen2_5Vl;
  config.backbone.head_width = 8;
  config.backbone.mrope_section = {1, 1, 2};
  config.tokens = {.image_pad = 57, .video_pad = 58, .vision_start = 59, .vision_end = 60};
  config.vision = config::VisionConfig{.layers = 2,
                                       .width = 16,
                                       .heads = 2,
                                       .mlp_width = 20,
                                       .output_width = config.backbone.width,
                                       .full_attention_layers = {1}};
  return config;
}

/// A model with every parameter random: norms and biases too, since their defaults hide errors.
inline std::unique_ptr<Model> make_random_model(const config::ModelConfig& config,
                                                std::uint64_t seed = 1, bool trainable = true) {
  std::unique_ptr<Model> model = make_model(config);
  const at::NoGradGuard no_grad;
  for (const auto& unit : model->units()) {
    unit->materialize(at::kCPU, at::kFloat, trainable);
    for (const auto& parameter : unit->parameters()) {
      RandomStream stream(seed, parameter->name);
      at::Tensor flat = parameter->value.view({-1});
      for (std::int64_t i = 0; i < flat.numel(); ++i)
        flat.mutable_data_ptr<float>()[i] = static_cast<float>(0.3 * stream.normal());
    }
  }
  return model;
}

/// A pack of samples of the given lengths with random tokens; positions restart in each.
inline PackedBatch random_pack(const std::vector<std::int32_t>& lengths, std::int64_t vocab,
                               std::uint64_t seed = 2) {
  RandomStream stream(seed, "tokens");
  PackedBatch batch;
  batch.cu_seqlens = {0};
  std::vector<std::int64_t> tokens;
  std::vector<std::int64_t> positions;
  for (const std::int32_t length : lengths) {
    for (std::int32_t i = 0; i < length; ++i) {
      tokens.push_back(stream.between(0, vocab - 1));
      positions.push_back(i);
    }
    batch.cu_seqlens.push_back(static_cast<std::int32_t>(tokens.size()));
  }
  batch.input_ids = at::tensor(tokens, at::kLong);
  batch.position_ids = at::tensor(positions, at::kLong).unsqueeze(0).expand({3, -1});
  return batch;
}

/// One sample of a pack as a pack of its own.
inline PackedBatch take_sample(const PackedBatch& batch, std::size_t sample) {
  const std::int64_t first = batch.cu_seqlens[sample];
  const std::int64_t length = batch.cu_seqlens[sample + 1] - first;
  PackedBatch single;
  single.input_ids = batch.input_ids.narrow(0, first, length);
  single.position_ids = batch.position_ids.narrow(1, first, length);
  single.cu_seqlens = {0, static_cast<std::int32_t>(length)};
  return single;
}

/// The next token of each sample as its target; nothing after the last.
inline at::Tensor next_tokens(const PackedBatch& batch) {
  at::Tensor targets = at::full_like(batch.input_ids, -100);
  const std::int64_t tokens = targets.size(0);
  targets.narrow(0, 0, tokens - 1).copy_(batch.input_ids.narrow(0, 1, tokens - 1));
  for (std::size_t i = 1; i < batch.cu_seqlens.size(); ++i)
    targets.select(0, batch.cu_seqlens[i] - 1).fill_(-100);
  return targets;
}

inline double largest(const at::Tensor& tensor) { return at::abs(tensor).max().item<double>(); }

/// All gradients of a model in one vector.
inline at::Tensor all_gradients(const Model& model) {
  std::vector<at::Tensor> parts;
  for (const auto& unit : model.units()) parts.push_back(unit->shard_gradient());
  return at::cat(parts).clone();
}

inline void clear_gradients(Model& model) {
  for (const auto& unit : model.units()) {
    at::Tensor gradient = unit->shard_gradient();
    gradient.zero_();
  }
}

}  // namespace tributary::model
