#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>

#include "config/cluster/yaml_json.h"
#include "config/family/json_object.h"
#include "config/module_graph.h"
#include "core/error.h"

namespace tributary::config {
namespace {

constexpr WholeRange kNone{0, 1 << 26};

/// Sizes that the keys of a text decoder give.
LayerShape decoder_block(const JsonObject& text) {
  LayerShape block{.kind = LayerKind::kBlock, .width = text.whole("hidden_size", std::nullopt)};
  block.heads = text.whole("num_attention_heads", std::nullopt);
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
  block.mlp_width = text.whole("intermediate_size", std::nullopt);
  return block;
}

/// The same block with experts; the width of a dense one stays for layers without them.
LayerShape expert_block(const JsonObject& text, LayerShape block) {
  block.experts = text.whole("num_experts", std::nullopt);
  block.experts_per_token = text.whole("num_experts_per_tok", std::nullopt);
  block.mlp_width = text.whole("moe_intermediate_size", std::nullopt);
  block.shared_mlp_width = text.whole_or_null("shared_expert_intermediate_size", 0, kNone);
  TRIB_REQUIRE(block.experts_per_token <= block.experts, .what = "config: value cannot be used",
               .where = text.where("num_experts_per_tok"), .found = str(block.experts_per_token),
               .expected = str("at most the ", block.experts, " experts"));
  return block;
}

ModuleNode backbone_of(const JsonObject& root, const JsonObject& text) {
  const LayerShape block = decoder_block(text);
  const std::int64_t vocab = text.whole("vocab_size", std::nullopt);
  const std::int64_t layers = text.whole("num_hidden_layers", std::nullopt, kLayerRange);
  const bool tied = text.flag("tie_word_embeddings", root.flag("tie_word_embeddings", false));
  ModuleNode backbone{.name = "backbone"};
  backbone.layers.push_back(
      {.shape = {.kind = LayerKind::kEmbedding, .width = block.width, .vocab = vocab}});
  const bool is_mixture = text.has("num_experts");
  backbone.layers.push_back(
      {.shape = is_mixture ? expert_block(text, block) : block, .layers = layers});
  backbone.layers.push_back(
      {.shape = {.kind = LayerKind::kHead, .width = block.width, .vocab = vocab, .tied = tied}});
  return backbone;
}

LayerShape encoder_block(std::int64_t width, std::int64_t heads, std::int64_t mlp,
                         std::int64_t matrices, const JsonObject& from) {
  TRIB_REQUIRE(width % heads == 0, .what = "config: width does not divide over the heads",
               .where = from.where(), .found = str(width, ", ", heads, " heads"));
  return {.kind = LayerKind::kBlock,
          .width = width,
          .heads = heads,
          .kv_heads = heads,
          .head_width = width / heads,
          .mlp_width = mlp,
          .mlp_matrices = matrices,
          .causal = false};
}

std::int64_t patch_side(const JsonObject& vision, std::int64_t standard) {
  // InternVL gives both sides.
  const std::vector<std::int64_t> sides =
      vision.found("patch_size").starts_with("[")
          ? vision.wholes("patch_size", {standard, standard}, {1, 1024})
          : std::vector<std::int64_t>{vision.whole("patch_size", standard, {1, 1024})};
  return sides.empty() ? standard : sides.front();
}

/// Vision tower and merger of Qwen2-VL, Qwen2.5-VL and Qwen3-VL.
void add_qwen_vision(ModuleGraph& graph, const JsonObject& vision, const std::string& family,
                     std::int64_t backbone_width) {
  const bool first = family == "qwen2_vl";
  const bool third = family.starts_with("qwen3_vl");
  const std::int64_t width = vision.whole(first ? "embed_dim" : "hidden_size", 1280);
  const std::int64_t heads = vision.whole("num_heads", 16);
  const std::int64_t mlp = first ? width * vision.whole("mlp_ratio", 4)
                                 : vision.whole("intermediate_size", third ? 4304 : 3420);
  const std::int64_t side = patch_side(vision, third ? 16 : 14);
  const std::int64_t channels =
      vision.whole(vision.has("in_channels") ? "in_channels" : "in_chans", 3);
  const std::int64_t depth = vision.whole("depth", 32, kLayerRange);
  const std::int64_t merge = vision.whole("spatial_merge_size", 2);
  const std::int64_t merged = merge * merge * width;
  LayerShape block = encoder_block(width, heads, mlp, first || third ? 2 : 3, vision);

  ModuleNode tower{.name = "vision"};
  tower.layers.push_back(
      {.shape = {.kind = LayerKind::kPatchEmbedding,
                 .input_width = channels * vision.whole("temporal_patch_size", 2) * side * side,
                 .width = width}});
  if (family == "qwen2_5_vl") {
    // Windows everywhere but in a few layers; which of them does not change the cost.
    const auto full = static_cast<std::int64_t>(
        vision.wholes("fullatt_block_indexes", {7, 15, 23, 31}, {0, 1 << 16}).size());
    const std::int64_t window = vision.whole("window_size", 112) / side;
    LayerShape windowed = block;
    windowed.window = window * window;
    TRIB_REQUIRE(full < depth && window >= 1, .what = "config: value cannot be used",
                 .where = vision.where("fullatt_block_indexes"),
                 .found = str(full, " layers of ", depth, ", windows of ", window, " patches"));
    tower.layers.push_back({.shape = windowed, .layers = depth - full});
    if (full > 0) tower.layers.push_back({.shape = block, .layers = full});
  } else {
    tower.layers.push_back({.shape = block, .layers = depth});
  }
  graph.modules.push_back(tower);

  const std::int64_t mergers =
      third ? 1 + static_cast<std::int64_t>(
                      vision.wholes("deepstack_visual_indexes", {8, 16, 24}, {0, 1 << 16}).size())
            : 1;
  graph.modules.push_back({.name = "projector",
                           .layers = {{.shape = {.kind = LayerKind::kProjector,
                                                 .input_width = width,
                                                 .width = backbone_width,
                                                 .hidden_width = merged,
                                                 .merge = merge * merge},
                                       .layers = mergers}}});
}

/// Towers of equal blocks over patches of an image: SigLIP and InternViT.
void add_plain_vision(ModuleGraph& graph, const JsonObject& vision, std::int64_t backbone_width,
                      std::int64_t merge) {
  const std::int64_t width = vision.whole("hidden_size", 1024);
  const std::int64_t side = patch_side(vision, 14);
  const LayerShape block = encoder_block(width, vision.whole("num_attention_heads", 16),
                                         vision.whole("intermediate_size", 4 * width), 2, vision);
  graph.modules.push_back(
      {.name = "vision",
       .layers = {{.shape = {.kind = LayerKind::kPatchEmbedding,
                             .input_width = vision.whole("num_channels", 3) * side * side,
                             .width = width}},
                  {.shape = block, .layers = vision.whole("num_hidden_layers", 24, kLayerRange)}}});
  graph.modules.push_back({.name = "projector",
                           .layers = {{.shape = {.kind = LayerKind::kProjector,
                                                 .input_width = width,
                                                 .width = backbone_width,
                                                 .hidden_width = backbone_width,
                                                 .merge = merge}}}});
}

/// The Whisper encoder of Qwen2-Audio; its items are positions after both convolutions.
void add_audio(ModuleGraph& graph, const JsonObject& audio, std::int64_t backbone_width) {
  const std::int64_t width = audio.whole("d_model", 1280);
  const LayerShape block = encoder_block(width, audio.whole("encoder_attention_heads", 20),
                                         audio.whole("encoder_ffn_dim", 5120), 2, audio);
  const std::int64_t kernel = 3;
  graph.modules.push_back(
      {.name = "audio",
       .layers = {// two frames become one position, so the first convolution has two rows of it
                  {.shape = {.kind = LayerKind::kConvolution,
                             .input_width = 2 * kernel * audio.whole("num_mel_bins", 128),
                             .width = width}},
                  {.shape = {.kind = LayerKind::kConvolution,
                             .input_width = kernel * width,
                             .width = width}},
                  {.shape = block, .layers = audio.whole("encoder_layers", 32, kLayerRange)}}});
  // Pairs of positions are averaged before the one linear layer.
  graph.modules.push_back({.name = "projector",
                           .layers = {{.shape = {.kind = LayerKind::kProjector,
                                                 .input_width = width / 2,
                                                 .width = backbone_width,
                                                 .merge = 2}}}});
}

struct Encoders {
  const char* family;
  std::function<void(ModuleGraph&, const JsonObject& root, const std::string& family,
                     std::int64_t backbone_width)>
      add;
};

JsonObject section(const JsonObject& root, const std::string& key) {
  const std::optional<JsonObject> found = root.object(key);
  TRIB_REQUIRE(found.has_value(), .what = "config: value cannot be used", .where = root.where(key),
               .found = root.found(key), .expected = "an object {...}");
  return *found;
}

const std::vector<Encoders>& families() {
  const auto none = [](ModuleGraph&, const JsonObject&, const std::string&, std::int64_t) {};
  const auto qwen = [](ModuleGraph& graph, const JsonObject& root, const std::string& family,
                       std::int64_t width) {
    add_qwen_vision(graph, section(root, "vision_config"), family, width);
  };
  static const std::vector<Encoders> list{
      {"llama", none},
      {"qwen2", none},
      {"qwen3", none},
      {"qwen3_moe", none},
      {"qwen2_vl", qwen},
      {"qwen2_5_vl", qwen},
      {"qwen3_vl", qwen},
      {"qwen3_vl_moe", qwen},
      {"llava_onevision",
       [](ModuleGraph& graph, const JsonObject& root, const std::string&, std::int64_t width) {
         add_plain_vision(graph, section(root, "vision_config"), width, 1);
       }},
      {"internvl",
       [](ModuleGraph& graph, const JsonObject& root, const std::string&, std::int64_t width) {
         add_plain_vision(graph, section(root, "vision_config"), width, 4);
       }},
      {"qwen2_audio",
       [](ModuleGraph& graph, const JsonObject& root, const std::string&, std::int64_t width) {
         add_audio(graph, section(root, "audio_config"), width);
       }},
  };
  return list;
}

}  // namespace

ModuleGraph parse_graph_of_model(std::string_view text, const std::string& where) {
  const Json json = parse_json(text, where);
  const JsonObject root(json, where);
  const std::string family = root.text("model_type", "");
  const Encoders* found = nullptr;
  std::string known;
  for (const Encoders& each : families()) {
    known += str(known.empty() ? "" : ", ", each.family);
    if (family == each.family) found = &each;
  }
  TRIB_REQUIRE(found != nullptr, .what = "config: no costs for this model family",
               .where = root.where("model_type"), .found = root.found("model_type"),
               .expected = known);
  const JsonObject decoder = root.object("text_config").value_or(root);
  const ModuleNode backbone = backbone_of(root, decoder);
  ModuleGraph graph{.name = family};
  found->add(graph, root, family, backbone.layers.front().shape.width);
  for (std::size_t i = 0; i < graph.modules.size(); ++i) {
    const std::string to = i + 1 < graph.modules.size() ? graph.modules[i + 1].name : backbone.name;
    graph.edges.push_back({graph.modules[i].name, to});
  }
  graph.modules.push_back(backbone);
  std::sort(graph.modules.begin(), graph.modules.end(),
            [](const ModuleNode& a, const ModuleNode& b) { return a.name < b.name; });
  return graph;
}

ModuleGraph read_graph_of_model(const std::string& directory) {
  const std::string path = directory + "/config.json";
  return parse_graph_of_model(read_artifact(path, "a Hugging Face config.json"), path);
}

}  // namespace tributary::config
