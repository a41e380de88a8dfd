#include <numeric>

#include "config/family/all_families.h"
#include "config/family/decoder.h"
#include "core/error.h"

namespace tributary::config {
namespace {

constexpr DecoderDefaults kTextDefaults{.layers = 80,
                                        .width = 8192,
                                        .heads = 64,
                                        .kv_heads = 8,
                                        .mlp_width = 29568,
                                        .vocab = 152064,
                                        .max_positions = 32768,
                                        .max_window_layers = 80,
                                        .rope_theta = 1e6,
                                        .norm_epsilon = 1e-5};

BackboneConfig read_text(const JsonObject& text, bool tied_head) {
  BackboneConfig backbone = read_decoder(text, kTextDefaults);
  TRIB_REQUIRE(backbone.width % backbone.heads == 0,
               .what = "config: width does not divide over the heads",
               .where = text.where("hidden_size"),
               .found = str("width ", backbone.width, ", ", backbone.heads, " heads"),
               .expected = "hidden_size to be a multiple of num_attention_heads");
  backbone.head_width = backbone.width / backbone.heads;
  backbone.qkv_bias = true;
  backbone.tied_head = tied_head;
  const std::optional<JsonObject> rope = rope_parameters(text);
  TRIB_REQUIRE(rope && rope->has("mrope_section"), .what = "config: M-RoPE sections are missing",
               .where = text.where("rope_scaling.mrope_section"),
               .expected = "three whole numbers (time, row, column)");
  backbone.mrope_section = rope->wholes("mrope_section", {}, {0, 1 << 13});
  const auto sum = std::accumulate(backbone.mrope_section.begin(), backbone.mrope_section.end(),
                                   std::int64_t{0});
  TRIB_REQUIRE(backbone.mrope_section.size() == 3 && 2 * sum == backbone.head_width,
               .what = "config: M-RoPE sections do not fill half a head",
               .where = rope->where("mrope_section"),
               .found = str(rope->found("mrope_section"), ", sum ", sum, ", head width ",
                            backbone.head_width),
               .expected = str("three numbers with the sum ", backbone.head_width / 2));
  check_decoder(text, backbone);
  return backbone;
}

/// Reads a size that some files give as a list, with one number for each side.
std::int64_t read_side(const JsonObject& vision, const std::string& key, std::int64_t standard) {
  if (vision.found(key).starts_with('[')) {
    const std::vector<std::int64_t> sides = vision.wholes(key, {}, {1, 4096});
    TRIB_REQUIRE(!sides.empty() && sides.front() == sides.back(),
                 .what = "config: patches are not square", .where = vision.where(key),
                 .found = vision.found(key), .expected = "one size for every side");
    return sides.front();
  }
  return vision.whole(key, standard, {1, 4096});
}

void check_vision(const JsonObject& vision, const VisionConfig& tower,
                  std::int64_t backbone_width) {
  TRIB_REQUIRE(tower.output_width == backbone_width,
               .what = "config: vision output does not fit the backbone",
               .where = vision.where("out_hidden_size"),
               .found = str("out_hidden_size ", tower.output_width, ", backbone hidden_size ",
                            backbone_width),
               .expected = "the same width");
  TRIB_REQUIRE(tower.width % tower.heads == 0 && tower.width / tower.heads % 4 == 0,
               .what = "config: vision width does not divide over the heads",
               .where = vision.where("num_heads"),
               .found = str("width ", tower.width, ", ", tower.heads, " heads"),
               .expected = "a head width that is a multiple of 4: rows and columns turn pairs");
  TRIB_REQUIRE(
      tower.window >= tower.patch * tower.merge,
      .what = "config: vision window is smaller than a merged token",
      .where = vision.where("window_size"), .found = str(tower.window, " pixels"),
      .expected =
          str("at least patch_size * spatial_merge_size = ", tower.patch * tower.merge, " pixels"));
}

VisionConfig read_vision(const JsonObject& vision, std::int64_t backbone_width) {
  VisionConfig tower;
  tower.layers = vision.whole("depth", 32, kLayerRange);
  tower.width = vision.whole("hidden_size", 3584, {1, 1 << 20});
  tower.heads = vision.whole("num_heads", 16, {1, 1 << 14});
  tower.mlp_width = vision.whole("intermediate_size", 3420, {1, 1 << 22});
  tower.output_width = vision.whole("out_hidden_size", 3584, {1, 1 << 20});
  tower.channels =  // released files say in_chans
      vision.whole(vision.has("in_channels") ? "in_channels" : "in_chans", 3, {1, 64});
  tower.patch = read_side(vision, "patch_size", 14);
  tower.temporal_patch = read_side(vision, "temporal_patch_size", 2);
  tower.merge = vision.whole("spatial_merge_size", 2, {1, 64});
  tower.window = vision.whole("window_size", 112, {1, 1 << 16});
  tower.full_attention_layers =
      vision.wholes("fullatt_block_indexes", {7, 15, 23, 31}, {0, 10'000});
  tower.tokens_per_second = vision.number("tokens_per_second", 4, 0.0);
  tower.initializer_range = vision.number("initializer_range", 0.02, 0.0);
  require_silu(vision);
  if (const std::optional<JsonObject> rope = vision.object("rope_parameters")) {
    TRIB_REQUIRE(rope->number("rope_theta", 1e4, 1.0) == 1e4,
                 .what = "config: vision rope base is not supported",
                 .where = rope->where("rope_theta"), .found = rope->found("rope_theta"),
                 .expected = "10000");
  }
  check_vision(vision, tower, backbone_width);
  return tower;
}

/// Reads a token id: newer files keep them at the top, some older ones in text_config.
std::int64_t read_token(const JsonObject& config, const std::optional<JsonObject>& text,
                        const std::string& key, std::int64_t standard, std::int64_t vocab) {
  const JsonObject& place = !config.has(key) && text ? *text : config;
  if (!place.has(key)) return standard;
  const std::int64_t token = place.whole(key, std::nullopt, {0, 1 << 26});
  TRIB_REQUIRE(token < vocab, .what = "config: token id outside the vocabulary",
               .where = place.where(key), .found = str(token), .expected = str("below ", vocab));
  return token;
}

}  // namespace

ModelConfig read_qwen2_5_vl(const JsonObject& config) {
  const std::optional<JsonObject> nested = config.object("text_config");
  const JsonObject& text = nested ? *nested : config;  // released files are flat
  const bool tied_head = config.flag("tie_word_embeddings", false) ||
                         (nested && nested->flag("tie_word_embeddings", false));
  ModelConfig model;
  model.family = ModelFamily::kQwen2_5Vl;
  model.backbone = read_text(text, tied_head);
  const std::optional<JsonObject> vision = config.object("vision_config");
  TRIB_REQUIRE(vision.has_value(), .what = "config: vision_config is missing",
               .where = config.where("vision_config"), .expected = "an object {...}");
  model.vision = read_vision(*vision, model.backbone.width);
  const auto token = [&](const std::string& key, std::int64_t standard) {
    return read_token(config, nested, key, standard, model.backbone.vocab);
  };
  model.tokens.image_pad = token("image_token_id", 151655);
  model.tokens.video_pad = token("video_token_id", 151656);
  model.tokens.vision_start = token("vision_start_token_id", 151652);
  model.tokens.vision_end = token("vision_end_token_id", 151653);
  return model;
}

}  // namespace tributary::config
