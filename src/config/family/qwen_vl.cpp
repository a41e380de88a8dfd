#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "config/family/all_families.h"
#include "config/family/decoder.h"
#include "config/family/towers.h"
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

constexpr DecoderDefaults kThirdTextDefaults{.max_positions = 128000, .rope_theta = 5e5};

/// Fills in mrope_section: the halves of a head that follow time, row and column. `standard` is
/// taken where the file has none; empty: it must have them.
void read_sections(const JsonObject& text, std::vector<std::int64_t> standard,
                   BackboneConfig& backbone) {
  const std::optional<JsonObject> rope = rope_parameters(text);
  TRIB_REQUIRE(!backbone.dynamic_rope,
               .what = "config: a dynamic rope with M-RoPE is not supported",
               .where = text.where("rope_scaling"), .expected = "type mrope or default");
  TRIB_REQUIRE(!standard.empty() || (rope && rope->has("mrope_section")),
               .what = "config: M-RoPE sections are missing",
               .where = text.where("rope_scaling.mrope_section"),
               .expected = "three whole numbers (time, row, column)");
  backbone.mrope_section =
      rope ? rope->wholes("mrope_section", std::move(standard), {0, 1 << 13}) : standard;
  const auto sum = std::accumulate(backbone.mrope_section.begin(), backbone.mrope_section.end(),
                                   std::int64_t{0});
  TRIB_REQUIRE(backbone.mrope_section.size() == 3 && 2 * sum == backbone.head_width,
               .what = "config: M-RoPE sections do not fill half a head",
               .where = (rope ? *rope : text).where("mrope_section"),
               .found = str(rope ? rope->found("mrope_section") : "the default", ", sum ", sum,
                            ", head width ", backbone.head_width),
               .expected = str("three numbers with the sum ", backbone.head_width / 2));
}

/// The text model of Qwen3-VL.
BackboneConfig read_third_text(const JsonObject& text, bool tied_head) {
  BackboneConfig backbone = read_decoder(text, kThirdTextDefaults);
  backbone.head_width = text.whole("head_dim", 128, {1, 1 << 14});
  backbone.qk_norm = true;
  backbone.mrope_interleaved = true;
  backbone.tied_head = tied_head;
  read_sections(text, {24, 20, 20}, backbone);
  require_no_bias(text);
  check_decoder(text, backbone);
  return backbone;
}

void check_vision(const JsonObject& vision, const VisionConfig& tower,
                  std::int64_t backbone_width) {
  const std::string key = tower.kind == VisionClass::kQwen2Vl ? "hidden_size" : "out_hidden_size";
  TRIB_REQUIRE(
      tower.output_width == backbone_width,
      .what = "config: vision output does not fit the backbone", .where = vision.where(key),
      .found = str(key, " ", tower.output_width, ", backbone hidden_size ", backbone_width),
      .expected = "the same width");
  TRIB_REQUIRE(tower.width % tower.heads == 0 && tower.width / tower.heads % 4 == 0,
               .what = "config: vision width does not divide over the heads",
               .where = vision.where("num_heads"),
               .found = str("width ", tower.width, ", ", tower.heads, " heads"),
               .expected = "a head width that is a multiple of 4: rows and columns turn pairs");
  TRIB_REQUIRE(
      tower.window == 0 || tower.window >= tower.patch * tower.merge,
      .what = "config: vision window is smaller than a merged token",
      .where = vision.where("window_size"), .found = str(tower.window, " pixels"),
      .expected =
          str("at least patch_size * spatial_merge_size = ", tower.patch * tower.merge, " pixels"));
}

/// What the towers of all three families have in common.
VisionConfig read_tower(const JsonObject& vision, VisionClass kind, std::int64_t patch) {
  VisionConfig tower;
  tower.kind = kind;
  tower.heads = vision.whole("num_heads", 16, {1, 1 << 14});
  tower.channels =  // released files say in_chans
      vision.whole(vision.has("in_channels") ? "in_channels" : "in_chans", 3, {1, 64});
  tower.patch = read_side(vision, "patch_size", patch);
  tower.temporal_patch = read_side(vision, "temporal_patch_size", 2);
  tower.merge = vision.whole("spatial_merge_size", 2, {1, 64});
  tower.window = 0;
  tower.initializer_range = vision.number("initializer_range", 0.02, 0.0);
  if (const std::optional<JsonObject> rope = vision.object("rope_parameters")) {
    TRIB_REQUIRE(rope->number("rope_theta", 1e4, 1.0) == 1e4,
                 .what = "config: vision rope base is not supported",
                 .where = rope->where("rope_theta"), .found = rope->found("rope_theta"),
                 .expected = "10000");
  }
  return tower;
}

VisionConfig read_first_vision(const JsonObject& vision) {
  VisionConfig tower = read_tower(vision, VisionClass::kQwen2Vl, 14);
  tower.layers = vision.whole("depth", 32, kLayerRange);
  tower.width = vision.whole("embed_dim", 1280, {1, 1 << 20});
  tower.mlp_width = tower.width * vision.whole("mlp_ratio", 4, {1, 64});
  tower.output_width = vision.whole("hidden_size", 3584, {1, 1 << 20});
  require_activation(vision, "hidden_act", "quick_gelu");
  return tower;
}

VisionConfig read_second_vision(const JsonObject& vision) {
  VisionConfig tower = read_tower(vision, VisionClass::kQwen2_5Vl, 14);
  tower.layers = vision.whole("depth", 32, kLayerRange);
  tower.width = vision.whole("hidden_size", 3584, {1, 1 << 20});
  tower.mlp_width = vision.whole("intermediate_size", 3420, {1, 1 << 22});
  tower.output_width = vision.whole("out_hidden_size", 3584, {1, 1 << 20});
  tower.window = vision.whole("window_size", 112, {1, 1 << 16});
  tower.full_attention_layers =
      vision.wholes("fullatt_block_indexes", {7, 15, 23, 31}, {0, 10'000});
  tower.tokens_per_second = vision.number("tokens_per_second", 4, 0.0);
  require_silu(vision);
  return tower;
}

VisionConfig read_third_vision(const JsonObject& vision) {
  VisionConfig tower = read_tower(vision, VisionClass::kQwen3Vl, 16);
  tower.layers = vision.whole("depth", 27, kLayerRange);
  tower.width = vision.whole("hidden_size", 1152, {1, 1 << 20});
  tower.mlp_width = vision.whole("intermediate_size", 4304, {1, 1 << 22});
  tower.output_width = vision.whole("out_hidden_size", 3584, {1, 1 << 20});
  tower.deepstack_layers = vision.wholes("deepstack_visual_indexes", {8, 16, 24}, {0, 10'000});
  const std::int64_t table = vision.whole("num_position_embeddings", 2304, {1, 1 << 24});
  tower.positions_side = std::llround(std::sqrt(static_cast<double>(table)));
  TRIB_REQUIRE(tower.positions_side * tower.positions_side == table,
               .what = "config: table of vision positions is not square",
               .where = vision.where("num_position_embeddings"), .found = str(table),
               .expected = "a square number, such as 2304");
  const std::vector<std::int64_t>& levels = tower.deepstack_layers;
  TRIB_REQUIRE(std::ranges::is_sorted(levels, std::less_equal<>()) &&
                   (levels.empty() || levels.back() < tower.layers),
               .what = "config: deepstack layers are no layers of the tower",
               .where = vision.where("deepstack_visual_indexes"),
               .found = vision.found("deepstack_visual_indexes"),
               .expected = str("ascending numbers below ", tower.layers));
  require_activation(vision, "hidden_act", "gelu_pytorch_tanh");
  return tower;
}

/// Fills in what all three families read alike: the tower and the tokens of media.
void read_media(const JsonObject& config, const std::optional<JsonObject>& text,
                VisionConfig (*read)(const JsonObject& vision), ModelConfig& model) {
  const JsonObject vision = section_of(config, "vision_config");
  model.vision = read(vision);
  check_vision(vision, *model.vision, model.backbone.width);
  const auto token = [&](const std::string& key, std::int64_t standard) {
    return read_token(config, text, {key}, standard, model.backbone.vocab);
  };
  model.tokens.image_pad = token("image_token_id", 151655);
  model.tokens.video_pad = token("video_token_id", 151656);
  model.tokens.vision_start = token("vision_start_token_id", 151652);
  model.tokens.vision_end = token("vision_end_token_id", 151653);
}

/// Qwen2-VL and Qwen2.5-VL, whose released files keep the fields of the text model at the top.
ModelConfig read_early(const JsonObject& config, ModelFamily family,
                       VisionConfig (*read_vision)(const JsonObject& vision)) {
  const std::optional<JsonObject> nested = config.object("text_config");
  const bool tied_head = config.flag("tie_word_embeddings", false) ||
                         (nested && nested->flag("tie_word_embeddings", false));
  ModelConfig model;
  model.family = family;
  model.backbone = read_mrope_text(nested ? *nested : config, kTextDefaults, tied_head);
  read_media(config, nested, read_vision, model);
  return model;
}

}  // namespace

BackboneConfig read_mrope_text(const JsonObject& text, const DecoderDefaults& defaults,
                               bool tied_head) {
  BackboneConfig backbone = read_decoder(text, defaults);
  backbone.head_width = even_head_width(text, backbone);
  backbone.qkv_bias = true;
  backbone.tied_head = tied_head;
  read_sections(text, {}, backbone);
  check_decoder(text, backbone);
  return backbone;
}

VisionConfig read_qwen2_5_tower(const JsonObject& vision, std::int64_t backbone_width) {
  VisionConfig tower = read_second_vision(vision);
  check_vision(vision, tower, backbone_width);
  return tower;
}

ModelConfig read_qwen2_vl(const JsonObject& config) {
  return read_early(config, ModelFamily::kQwen2Vl, read_first_vision);
}

ModelConfig read_qwen2_5_vl(const JsonObject& config) {
  return read_early(config, ModelFamily::kQwen2_5Vl, read_second_vision);
}

ModelConfig read_qwen3_vl(const JsonObject& config) {
  const std::optional<JsonObject> text = config.object("text_config");
  TRIB_REQUIRE(text.has_value(), .what = "config: text_config is missing",
               .where = config.where("text_config"), .expected = "an object {...}");
  ModelConfig model;
  model.family = ModelFamily::kQwen3Vl;
  model.backbone = read_third_text(*text, config.flag("tie_word_embeddings", false));
  read_media(config, text, read_third_vision, model);
  model.backbone.deepstack_levels = std::ssize(model.vision->deepstack_layers);
  TRIB_REQUIRE(
      model.backbone.deepstack_levels <= model.backbone.layers,
      .what = "config: more levels of features than layers of the backbone",
      .where = config.where("vision_config.deepstack_visual_indexes"),
      .found = str(model.backbone.deepstack_levels, " levels, ", model.backbone.layers, " layers"),
      .expected = "one layer for each level");
  return model;
}

}  // namespace tributary::config
