#include <cmath>

#include "config/family/all_families.h"
#include "config/family/towers.h"
#include "core/error.h"

namespace tributary::config {
namespace {

/// How many patches a side the pixel shuffle puts into one token.
std::int64_t read_merge(const JsonObject& config) {
  const double ratio = config.number("downsample_ratio", 0.5, 0.0);
  TRIB_REQUIRE(ratio > 0.01 && ratio <= 1, .what = "config: value cannot be used",
               .where = config.where("downsample_ratio"), .found = str(ratio),
               .expected = "a fraction of a side, above 0.01, at most 1");
  return static_cast<std::int64_t>(1 / ratio);
}

void require_intern_vit(const JsonObject& config, const JsonObject& vision) {
  require_last_features(config, "default");
  require_activation(vision, "hidden_act", "gelu");
  for (const char* dropout : {"hidden_dropout_prob", "attention_dropout", "projection_dropout"})
    TRIB_REQUIRE(vision.number(dropout, 0, 0) == 0, .what = "config: dropout is not supported",
                 .where = vision.where(dropout), .found = vision.found(dropout), .expected = "0");
  TRIB_REQUIRE(vision.flag("use_absolute_position_embeddings", true) &&
                   vision.flag("use_mean_pooling", true) && !vision.flag("use_mask_token", false),
               .what = "config: this form of InternViT is not supported", .where = vision.where(),
               .expected = "use_absolute_position_embeddings and use_mean_pooling, no mask token");
}

VisionConfig read_intern_vit(const JsonObject& vision, std::int64_t merge) {
  VisionConfig tower = read_tile_tower(
      vision, VisionClass::kInternVit, merge,
      {.layers = 24, .width = 1024, .heads = 16, .mlp_width = 4096, .patch = 14, .tile = 448});
  tower.class_token = true;
  tower.qkv_bias = vision.flag("attention_bias", false);
  tower.qk_norm = vision.flag("use_qk_norm", false);
  tower.initializer_range = vision.number("initializer_range", 0.02, 0.0);
  tower.layer_scale = vision.number("layer_scale_init_value", 0.1, 0.0);
  const std::string norm = vision.text("norm_type", "layer_norm");
  TRIB_REQUIRE(norm == "layer_norm" || norm == "rms_norm", .what = "config: norm is not supported",
               .where = vision.where("norm_type"), .found = escaped(norm),
               .expected = "layer_norm or rms_norm");
  tower.layer_norms = norm == "layer_norm";
  return tower;
}

}  // namespace

ModelConfig read_internvl(const JsonObject& config) {
  const JsonObject vision = section_of(config, "vision_config");
  ModelConfig model;
  model.family = ModelFamily::kInternVl;
  model.backbone = read_text_config(config, /*tied=*/true);
  require_intern_vit(config, vision);
  model.vision = read_intern_vit(vision, read_merge(config));
  model.vision->output_width = model.backbone.width;
  check_tile_tower(vision, *model.vision);
  model.tokens.image_pad =
      read_token(config, std::nullopt, {"image_token_id"}, 151667, model.backbone.vocab);
  return model;
}

}  // namespace tributary::config
