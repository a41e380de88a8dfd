#include <cmath>

#include "config/family/all_families.h"
#include "config/family/towers.h"
#include "core/error.h"

namespace tributary::config {
namespace {

/// What InternViT is called in a config.json, and what holds where a file says nothing.
struct InternVitKeys {
  const char* bias;
  const char* qk_norm;
  bool norms_qk;
  const char* norm;
  const char* scale;  // the layer scale at the start
  std::vector<const char*> dropouts;
  TileTowerDefaults sizes;
};

/// The class InternVLVisionConfig of transformers has these.
const InternVitKeys kTransformersKeys{
    .bias = "attention_bias",
    .qk_norm = "use_qk_norm",
    .norms_qk = false,
    .norm = "layer_norm",
    .scale = "layer_scale_init_value",
    .dropouts = {"hidden_dropout_prob", "attention_dropout", "projection_dropout"},
    .sizes = {
        .layers = 24, .width = 1024, .heads = 16, .mlp_width = 4096, .patch = 14, .tile = 448}};

/// The class InternVisionConfig of the authors has these. `drop_path_rate` is not read: their
/// recipes set it anew, and the form for transformers leaves it out.
const InternVitKeys kAuthorsKeys{
    .bias = "qkv_bias",
    .qk_norm = "qk_normalization",
    .norms_qk = true,
    .norm = "rms_norm",
    .scale = "initializer_factor",
    .dropouts = {"dropout", "attention_dropout"},
    .sizes = {
        .layers = 48, .width = 3200, .heads = 25, .mlp_width = 12800, .patch = 14, .tile = 224}};

/// How many patches a side the pixel shuffle puts into one token.
std::int64_t read_merge(const JsonObject& config) {
  const double ratio = config.number("downsample_ratio", 0.5, 0.0);
  TRIB_REQUIRE(ratio > 0.01 && ratio <= 1, .what = "config: value cannot be used",
               .where = config.where("downsample_ratio"), .found = str(ratio),
               .expected = "a fraction of a side, above 0.01, at most 1");
  return static_cast<std::int64_t>(1 / ratio);
}

VisionConfig read_intern_vit(const JsonObject& vision, std::int64_t merge,
                             const InternVitKeys& keys) {
  require_activation(vision, "hidden_act", "gelu");
  for (const char* dropout : keys.dropouts)
    TRIB_REQUIRE(vision.number(dropout, 0, 0) == 0, .what = "config: dropout is not supported",
                 .where = vision.where(dropout), .found = vision.found(dropout), .expected = "0");
  VisionConfig tower = read_tile_tower(vision, VisionClass::kInternVit, merge, keys.sizes);
  tower.class_token = true;
  tower.qkv_bias = vision.flag(keys.bias, false);
  tower.qk_norm = vision.flag(keys.qk_norm, keys.norms_qk);
  tower.initializer_range = vision.number("initializer_range", 0.02, 0.0);
  tower.layer_scale = vision.number(keys.scale, 0.1, 0.0);
  const std::string norm = vision.text("norm_type", keys.norm);
  TRIB_REQUIRE(norm == "layer_norm" || norm == "rms_norm", .what = "config: norm is not supported",
               .where = vision.where("norm_type"), .found = escaped(norm),
               .expected = "layer_norm or rms_norm");
  tower.layer_norms = norm == "layer_norm";
  return tower;
}

/// Puts the tower in front of the backbone.
void add_tower(ModelConfig& model, const JsonObject& config, const InternVitKeys& keys) {
  const JsonObject vision = section_of(config, "vision_config");
  model.vision = read_intern_vit(vision, read_merge(config), keys);
  model.vision->output_width = model.backbone.width;
  check_tile_tower(vision, *model.vision);
  model.tokens.image_pad =
      read_token(config, std::nullopt, {"image_token_id"}, 151667, model.backbone.vocab);
}

/// Refuses forms of the authors' models before InternVL 2.5.
void require_internvl2_5(const JsonObject& config) {
  const auto require = [&](bool is_right, const char* key, const char* expected,
                           const char* fix = "") {
    TRIB_REQUIRE(is_right, .what = "config: this form of InternVL is not supported",
                 .where = config.where(key), .found = config.found(key), .expected = expected,
                 .fix = fix);
  };
  require(config.whole("select_layer", -1, {-1000, 1000}) == -1, "select_layer",
          "-1, the last layer");
  require(config.text("ps_version", "v1") == "v2", "ps_version", "v2");
  require(!config.flag("pad2square", false), "pad2square", "false");
  for (const char* key : {"dynamic_image_size", "use_thumbnail"})
    require(config.flag(key, false), key, "true: tiles of a picture, and the whole");
  require(config.whole("min_dynamic_patch", 1) == 1, "min_dynamic_patch", "1");
  require(config.text("template", "internvl2_5") == "internvl2_5", "template",
          "internvl2_5, as which chats are written",
          "to train it on such chats, set the key to internvl2_5, and data.system_prompt");
  const JsonObject text = section_of(config, "llm_config");
  TRIB_REQUIRE(!text.text("model_type", "").starts_with("internlm"),
               .what = "config: text model is not supported", .where = text.where("model_type"),
               .found = text.found("model_type"), .expected = "qwen2, qwen3 or llama",
               .fix =
                   "take a size whose text model is Qwen2.5: InternVL 2.5 has it with 1B, 4B, 38B "
                   "and 78B, InternVL 3 with all but 9B");
  const std::int64_t tile =
      read_side(section_of(config, "vision_config"), "image_size", kAuthorsKeys.sizes.tile);
  require(config.whole_or_null("force_image_size", tile, {1, 4096}) == tile, "force_image_size",
          "the image_size of vision_config");
}

}  // namespace

ModelConfig read_internvl(const JsonObject& config) {
  const JsonObject vision = section_of(config, "vision_config");
  require_last_features(config, "default");
  TRIB_REQUIRE(vision.flag("use_absolute_position_embeddings", true) &&
                   vision.flag("use_mean_pooling", true) && !vision.flag("use_mask_token", false),
               .what = "config: this form of InternViT is not supported", .where = vision.where(),
               .expected = "use_absolute_position_embeddings and use_mean_pooling, no mask token");
  ModelConfig model;
  model.family = ModelFamily::kInternVl;
  model.backbone = read_text_config(config, /*tied=*/true);
  add_tower(model, config, kTransformersKeys);
  return model;
}

ModelConfig read_internvl_chat(const JsonObject& config) {
  require_internvl2_5(config);
  ModelConfig model;
  model.family = ModelFamily::kInternVlChat;
  model.backbone = read_text_section(config, "llm_config");
  model.backbone.tied_head |= config.flag("tie_word_embeddings", false);
  add_tower(model, config, kAuthorsKeys);
  model.vision->max_tiles = config.whole("max_dynamic_patch", 6, {1, 1024});
  return model;
}

}  // namespace tributary::config
