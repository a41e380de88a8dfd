#include "config/artifact/encoder_chains.h"

#include <algorithm>
#include <cmath>

#include "config/artifact/entry_of.h"
#include "core/error.h"

namespace tributary::config {
namespace {

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
  // InternVL files give both sides.
  const std::vector<std::int64_t> sides =
      vision.found("patch_size").starts_with("[")
          ? vision.wholes("patch_size", {standard, standard}, {1, 1024})
          : std::vector<std::int64_t>{vision.whole("patch_size", standard, {1, 1024})};
  return sides.empty() ? standard : sides.front();
}

/// Checks that the output width that an encoder declares is the width of the backbone.
void check_output(const JsonObject& from, const std::string& key, std::int64_t backbone_width) {
  if (!from.has(key)) return;
  const std::int64_t given = from.whole(key, std::nullopt);
  TRIB_REQUIRE(given == backbone_width, .what = "config: features do not fit the backbone",
               .where = from.where(key), .found = str(given),
               .expected = str("the backbone's width, ", backbone_width));
}

/// Adds blocks that attend within windows, and in their places those that attend to all patches.
void add_windowed(ModuleNode& tower, const LayerShape& block, std::int64_t depth, std::int64_t side,
                  const JsonObject& vision) {
  const std::string key = "fullatt_block_indexes";
  const std::vector<std::int64_t> full = vision.wholes(key, {7, 15, 23, 31}, {0, kLayerRange.max});
  for (const std::int64_t index : full)  // a tower of fewer blocks has fewer of the default ones
    TRIB_REQUIRE(index < depth || !vision.has(key), .what = "config: value cannot be used",
                 .where = vision.where(key), .found = str(index),
                 .expected = str("blocks from 0 to ", depth - 1));
  const std::int64_t window = vision.whole("window_size", 112) / side;
  TRIB_REQUIRE(window >= 1, .what = "config: value cannot be used",
               .where = vision.where("window_size"), .found = vision.found("window_size"),
               .expected = str("at least the ", side, " pixels of a patch"));
  LayerShape windowed = block;
  windowed.window = window * window;
  for (std::int64_t index = 0; index < depth; ++index) {
    const bool is_full = std::find(full.begin(), full.end(), index) != full.end();
    tower.add(is_full ? block : windowed);
  }
}

/// A tower of equal blocks by its model_type, and the defaults of its class.
struct TowerClass {
  std::string_view name;
  std::int64_t width, heads, mlp_width, layers, patch;
};

constexpr TowerClass kTowers[]{
    {"clip_vision_model", 768, 12, 3072, 12, 32},   {"intern_vit_6b", 3200, 25, 12800, 48, 14},
    {"internvl_vision", 1024, 16, 4096, 24, 14},    {"janus_vision_model", 1024, 16, 4096, 24, 16},
    {"siglip_vision_model", 768, 12, 3072, 12, 16},
};

const TowerClass& tower_class_of(const JsonObject& vision, const std::string& standard) {
  const std::string type = vision.text("model_type", standard);
  return entry_of(kTowers, type,
                  {.what = "config: no costs for this vision tower",
                   .where = vision.where("model_type"),
                   .found = escaped(type)});
}

std::int64_t plain_mlp_width(const JsonObject& vision, const TowerClass& tower,
                             std::int64_t width) {
  if (!vision.has("mlp_ratio")) return vision.whole("intermediate_size", tower.mlp_width);
  const double ratio = vision.number("mlp_ratio", 4, 0);
  const std::int64_t mlp_width = std::llround(ratio * static_cast<double>(width));
  TRIB_REQUIRE(mlp_width >= 1 && mlp_width <= 1 << 26, .what = "config: value cannot be used",
               .where = vision.where("mlp_ratio"), .found = str(ratio),
               .expected = "the width of the MLP as a multiple of hidden_size");
  return mlp_width;
}

LayerShape whisper_block(const JsonObject& audio) {
  return encoder_block(audio.whole("d_model", 1280), audio.whole("encoder_attention_heads", 20),
                       audio.whole("encoder_ffn_dim", 5120), 2, audio);
}

ModuleNode projector_of(const std::string& name, std::int64_t input_width,
                        std::int64_t hidden_width, std::int64_t width, std::int64_t merge,
                        std::int64_t layers = 1) {
  return {.name = name,
          .layers = {{.shape = {.kind = LayerKind::kProjector,
                                .input_width = input_width,
                                .width = width,
                                .hidden_width = hidden_width,
                                .merge = merge},
                      .layers = layers}}};
}

/// The name of the projector of sound; in models that take images too, "projector" is theirs.
std::string projector_of_sound(const std::string& family) {
  return family == "qwen2_audio" ? "projector" : "audio_projector";
}

}  // namespace

EncoderChain qwen_vision(const JsonObject& vision, const std::string& family,
                         std::int64_t backbone_width) {
  const bool first = family == "qwen2_vl";
  const bool third = family.starts_with("qwen3_");
  const std::int64_t width = vision.whole(first ? "embed_dim" : "hidden_size", 1280);
  const std::int64_t heads = vision.whole("num_heads", 16);
  const std::int64_t mlp = first ? width * vision.whole("mlp_ratio", 4)
                                 : vision.whole("intermediate_size", third ? 4304 : 3420);
  const std::int64_t side = patch_side(vision, third ? 16 : 14);
  const std::int64_t channels =
      vision.whole(vision.has("in_channels") ? "in_channels" : "in_chans", 3);
  const std::int64_t depth = vision.whole("depth", 32, kLayerRange);
  const std::int64_t merge = vision.whole("spatial_merge_size", 2);
  const LayerShape block = encoder_block(width, heads, mlp, first || third ? 2 : 3, vision);
  check_output(vision, first ? "hidden_size" : "out_hidden_size", backbone_width);

  ModuleNode tower{.name = "vision"};
  tower.add({.kind = LayerKind::kPatchEmbedding,
             .input_width = channels * vision.whole("temporal_patch_size", 2) * side * side,
             .width = width});
  if (first || third)
    tower.add(block, depth);
  else
    add_windowed(tower, block, depth, side, vision);

  const std::vector<std::int64_t> deepstack =
      vision.wholes("deepstack_visual_indexes", {8, 16, 24}, {0, kLayerRange.max});
  const std::int64_t mergers = third ? 1 + std::ssize(deepstack) : 1;
  return {tower, projector_of("projector", width, merge * merge * width, backbone_width,
                              merge * merge, mergers)};
}

ModuleNode patch_tower(const JsonObject& vision, const std::string& tower,
                       const std::string& name) {
  const TowerClass& standard = tower_class_of(vision, tower);
  const std::int64_t width = vision.whole("hidden_size", standard.width);
  const std::int64_t side = patch_side(vision, standard.patch);
  ModuleNode module{.name = name};
  module.add({.kind = LayerKind::kPatchEmbedding,
              .input_width = vision.whole("num_channels", 3) * side * side,
              .width = width});
  module.add(encoder_block(width, vision.whole("num_attention_heads", standard.heads),
                           plain_mlp_width(vision, standard, width), 2, vision),
             vision.whole("num_hidden_layers", standard.layers, kLayerRange));
  return module;
}

EncoderChain plain_vision(const JsonObject& vision, const std::string& tower,
                          std::int64_t backbone_width, std::int64_t merge) {
  const ModuleNode module = patch_tower(vision, tower, "vision");
  return {module, projector_of("projector", module.layers.back().shape.width, backbone_width,
                               backbone_width, merge)};
}

EncoderChain whisper_audio(const JsonObject& audio, const std::string& family,
                           std::int64_t backbone_width) {
  LayerShape block = whisper_block(audio);
  // A chunk of 2 n_window frames is half as many positions.
  if (family != "qwen2_audio") block.window = audio.whole("n_window", 100);
  check_output(audio, "output_dim", backbone_width);
  constexpr std::int64_t kKernel = 3;
  ModuleNode tower{.name = "audio"};
  tower.add({.kind = LayerKind::kConvolution,
             .input_width = kKernel * audio.whole("num_mel_bins", 128),
             .width = block.width,
             .uses = 2});  // two frames become one position
  tower.add({.kind = LayerKind::kConvolution,
             .input_width = kKernel * block.width,
             .width = block.width});
  tower.add(block, audio.whole("encoder_layers", 32, kLayerRange));
  // Pairs of positions are averaged before the one linear layer.
  return {tower, projector_of(projector_of_sound(family), block.width / 2, 0, backbone_width, 2)};
}

EncoderChain convolved_audio(const JsonObject& audio, std::int64_t backbone_width) {
  const auto halved = [](std::int64_t size) { return (size + 1) / 2; };  // by a stride of 2
  const std::int64_t channels = audio.whole("downsample_hidden_size", 480);
  const std::int64_t chunk = 2 * audio.whole("n_window", 50);
  const std::int64_t positions = halved(halved(halved(chunk)));
  LayerShape block = whisper_block(audio);
  block.window = positions * std::max<std::int64_t>(1, audio.whole("n_window_infer", 800) / chunk);
  check_output(audio, "output_dim", backbone_width);
  constexpr std::int64_t kKernel = 9;  // 3 x 3
  ModuleNode tower{.name = "audio"};
  std::int64_t bins = audio.whole("num_mel_bins", 128);
  std::int64_t frames = 8;  // frames that become one position
  for (const std::int64_t inputs : {std::int64_t{1}, channels, channels}) {
    bins = halved(bins);
    frames /= 2;
    tower.add({.kind = LayerKind::kConvolution,
               .input_width = kKernel * inputs,
               .width = channels,
               .uses = bins * frames});
  }
  tower.add(
      {.kind = LayerKind::kConvolution, .input_width = bins * channels, .width = block.width});
  tower.add(block, audio.whole("encoder_layers", 32, kLayerRange));
  return {tower, projector_of(projector_of_sound("qwen3_omni_moe"), block.width, block.width,
                              backbone_width, 1)};
}

}  // namespace tributary::config
