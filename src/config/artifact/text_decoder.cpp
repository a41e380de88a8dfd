#include "config/artifact/text_decoder.h"

#include <algorithm>

#include "config/artifact/entry_of.h"
#include "config/family/known_modules.h"
#include "core/error.h"

namespace tributary::config {
namespace {

constexpr WholeRange kNone{0, 1 << 26};

/// Which layers attend within a window when the keys switch it on.
enum class Windows { kNever, kFromLayer, kEveryLayer };

struct DecoderClass {
  std::string_view name;
  Windows windows = Windows::kNever;
  std::int64_t first_window = 28;  // max_window_layers where the file has none
};

constexpr DecoderClass kDecoders[]{
    {"llama"},
    {"internlm2"},
    {"qwen2", Windows::kFromLayer},
    {"qwen2_vl", Windows::kFromLayer, 80},
    {"qwen2_5_vl", Windows::kFromLayer, 80},
    {"qwen2_5_omni", Windows::kFromLayer},
    {"qwen3", Windows::kFromLayer},
    {"qwen3_moe", Windows::kEveryLayer},
    {"qwen3_omni_moe", Windows::kEveryLayer},
    {"qwen3_vl"},
    {"qwen3_vl_moe"},
    {"deepseek_v2"},
    {"deepseek_v3"},
};

/// Finds the class of a decoder; a file of `qwen3_vl` calls its decoder `qwen3_vl_text`.
const DecoderClass& class_of(const JsonObject& text, const std::string& decoder) {
  std::string type = decoder;
  if (type.ends_with("_text")) type.resize(type.size() - std::string_view("_text").size());
  return entry_of(kDecoders, type,
                  {.what = "config: no costs for this text decoder",
                   .where = text.where("model_type"),
                   .found = escaped(decoder)});
}

/// The attention window of each layer [tokens]; 0: the whole sequence.
std::vector<std::int64_t> windows_of(const JsonObject& text, const DecoderClass& decoder,
                                     std::int64_t layers) {
  std::vector<std::int64_t> windows(static_cast<std::size_t>(layers), 0);
  if (decoder.windows == Windows::kNever) return windows;
  const bool is_on = text.has("use_sliding_window") && text.flag("use_sliding_window", false);
  const std::int64_t window = is_on ? text.whole_or_null("sliding_window", 4096) : 0;
  const std::vector<std::string> types = text.texts("layer_types");
  if (decoder.windows == Windows::kFromLayer && !types.empty()) {
    TRIB_REQUIRE(std::ssize(types) == layers, .what = "config: value cannot be used",
                 .where = text.where("layer_types"), .found = str(types.size(), " types"),
                 .expected = str("one for each of ", layers, " layers"));
    for (std::size_t layer = 0; layer < types.size(); ++layer) {
      const bool is_windowed = types[layer] == "sliding_attention";
      TRIB_REQUIRE(types[layer] == "full_attention" || (is_windowed && is_on),
                   .what = "config: value cannot be used", .where = text.where("layer_types"),
                   .found = escaped(types[layer]),
                   .expected = "full_attention, or with use_sliding_window sliding_attention");
      if (is_windowed) windows[layer] = window;
    }
    return windows;
  }
  const std::int64_t first =
      decoder.windows == Windows::kEveryLayer
          ? 0
          : text.whole_or_null("max_window_layers", decoder.first_window, {0, kLayerRange.max});
  for (std::int64_t layer = std::min(first, layers); layer < layers; ++layer)
    windows[layer] = window;
  return windows;
}

/// Multi-head latent attention: queries, keys and values through narrow products.
///
/// source: docs/theory/numerics.md, "Multi-head latent attention"
void add_latents(const JsonObject& text, LayerShape& block) {
  block.rope_width = text.whole("qk_rope_head_dim", std::nullopt);
  block.head_width = text.whole("qk_nope_head_dim", std::nullopt) + block.rope_width;
  block.value_width = text.whole("v_head_dim", std::nullopt);
  block.query_rank = text.whole_or_null("q_lora_rank", 0, kNone);
  block.kv_rank = text.whole("kv_lora_rank", std::nullopt);
  block.kv_heads = block.heads;
}

/// A dense block of the sizes that the keys of a text decoder give.
LayerShape dense_block(const JsonObject& text) {
  LayerShape block{.kind = LayerKind::kBlock, .width = text.whole("hidden_size", std::nullopt)};
  block.heads = text.whole("num_attention_heads", std::nullopt);
  block.mlp_width = text.whole("intermediate_size", std::nullopt);
  if (text.has("kv_lora_rank")) {
    add_latents(text, block);
    return block;
  }
  block.kv_heads = text.whole_or_null("num_key_value_heads", block.heads);
  TRIB_REQUIRE(text.has("head_dim") || block.width % block.heads == 0,
               .what = "config: width does not divide over the heads",
               .where = text.where("num_attention_heads"),
               .found = str("width ", block.width, ", ", block.heads, " heads"),
               .expected = "hidden_size to be a multiple of it, or head_dim");
  TRIB_REQUIRE(block.heads % block.kv_heads == 0,
               .what = "config: heads do not divide over the kv heads",
               .where = text.where("num_key_value_heads"),
               .found = str(block.heads, " heads, ", block.kv_heads, " kv heads"),
               .expected = "num_attention_heads to be a multiple of it");
  block.head_width =
      text.whole_or_null("head_dim", std::max<std::int64_t>(block.width / block.heads, 1));
  return block;
}

/// Turns a dense block into one with experts.
LayerShape expert_block(const JsonObject& text, LayerShape block) {
  const bool is_deepseek = text.has("n_routed_experts");
  block.experts = text.whole(is_deepseek ? "n_routed_experts" : "num_experts", std::nullopt);
  block.experts_per_token = text.whole("num_experts_per_tok", std::nullopt);
  block.mlp_width = text.whole("moe_intermediate_size", std::nullopt);
  block.shared_mlp_width = is_deepseek
                               ? text.whole_or_null("n_shared_experts", 0, kNone) * block.mlp_width
                               : text.whole_or_null("shared_expert_intermediate_size", 0, kNone);
  TRIB_REQUIRE(block.experts_per_token <= block.experts, .what = "config: value cannot be used",
               .where = text.where("num_experts_per_tok"), .found = str(block.experts_per_token),
               .expected = str("at most the ", block.experts, " experts"));
  return block;
}

/// Whether each layer has experts. Qwen gives every n-th layer experts, except the dense layers
/// that it lists; DeepSeek begins with its dense layers.
std::vector<bool> mixtures_of(const JsonObject& text, std::int64_t layers) {
  std::vector<bool> mixtures(static_cast<std::size_t>(layers), false);
  if (text.has("n_routed_experts")) {
    const std::int64_t dense = text.whole_or_null("first_k_dense_replace", 0, kNone);
    const std::int64_t every = text.whole("moe_layer_freq", 1);
    for (std::int64_t layer = 0; layer < layers; ++layer)
      mixtures[layer] = layer >= dense && layer % every == 0;
  } else if (text.has("num_experts")) {
    const std::int64_t every = text.whole("decoder_sparse_step", 1);
    for (std::int64_t layer = 0; layer < layers; ++layer)
      mixtures[layer] = (layer + 1) % every == 0;
    for (const std::int64_t layer : text.wholes("mlp_only_layers", {}, {0, kLayerRange.max}))
      if (layer < layers) mixtures[layer] = false;
  }
  return mixtures;
}

}  // namespace

ModuleNode backbone_of(const JsonObject& text, const std::string& decoder, bool tied) {
  const LayerShape dense = dense_block(text);
  const std::int64_t vocab = text.whole("vocab_size", std::nullopt);
  const std::int64_t layers = text.whole("num_hidden_layers", std::nullopt, kLayerRange);
  const std::vector<std::int64_t> windows = windows_of(text, class_of(text, decoder), layers);
  const std::vector<bool> mixtures = mixtures_of(text, layers);
  const bool has_experts = std::find(mixtures.begin(), mixtures.end(), true) != mixtures.end();
  const LayerShape mixture = has_experts ? expert_block(text, dense) : dense;

  ModuleNode backbone{.name = std::string(kBackboneModule)};
  backbone.add({.kind = LayerKind::kEmbedding, .width = dense.width, .vocab = vocab});
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    LayerShape block = mixtures[layer] ? mixture : dense;
    block.window = windows[layer];
    backbone.add(block);
  }
  backbone.add({.kind = LayerKind::kHead, .width = dense.width, .vocab = vocab, .tied = tied});
  return backbone;
}

}  // namespace tributary::config
