#include <string_view>

#include "config/family/all_families.h"
#include "config/family/towers.h"
#include "core/error.h"

namespace tributary::config {
namespace {

/// The most tiles whose tokens are kept: the number behind anyres_max_.
std::int64_t read_max_tiles(const JsonObject& config) {
  constexpr std::string_view kStart = "anyres_max_";
  const std::string name = config.text("vision_aspect_ratio", "anyres_max_9");
  const std::string digits = name.starts_with(kStart) ? name.substr(kStart.size()) : "";
  const bool is_number = !digits.empty() && digits.size() < 4 &&
                         digits.find_first_not_of("0123456789") == std::string::npos;
  const std::int64_t max = is_number ? std::stoll(digits) : 0;
  TRIB_REQUIRE(max > 0, .what = "config: aspect ratio of pictures is not supported",
               .where = config.where("vision_aspect_ratio"), .found = escaped(name),
               .expected = "anyres_max_ and a number above 0, such as anyres_max_9");
  return max;
}

std::vector<TileArrangement> read_arrangements(const JsonObject& config, std::int64_t tile) {
  std::vector<std::array<std::int64_t, 2>> standard;
  for (std::int64_t rows = 1; rows <= 6; ++rows)
    for (std::int64_t columns = 1; columns <= 6; ++columns)
      standard.push_back({384 * rows, 384 * columns});
  std::vector<TileArrangement> arrangements;
  const std::string key = "image_grid_pinpoints";
  for (const auto& [height, width] : config.pairs(key, standard, {1, 1 << 16})) {
    TRIB_REQUIRE(height % tile == 0 && width % tile == 0,
                 .what = "config: pinpoint is no multiple of a tile", .where = config.where(key),
                 .found = str(height, "x", width),
                 .expected = str("multiples of the image_size ", tile));
    arrangements.push_back({height / tile, width / tile});
  }
  TRIB_REQUIRE(!arrangements.empty(), .what = "config: no pinpoints", .where = config.where(key),
               .expected = "one pair of height and width at least");
  return arrangements;
}

void require_siglip(const JsonObject& config, const JsonObject& vision) {
  require_last_features(config, "full");
  require_activation(vision, "hidden_act", "gelu_pytorch_tanh");
  const std::string type = vision.text("model_type", "siglip_vision_model");
  TRIB_REQUIRE(type == "siglip_vision_model", .what = "config: vision tower is not supported",
               .where = vision.where("model_type"), .found = escaped(type),
               .expected = "siglip_vision_model");
  TRIB_REQUIRE(!vision.flag("vision_use_head", true),
               .what = "config: a SigLIP tower with a pooling head is not supported",
               .where = vision.where("vision_use_head"), .found = vision.found("vision_use_head"),
               .expected = "false");
  TRIB_REQUIRE(vision.number("attention_dropout", 0, 0) == 0,
               .what = "config: dropout is not supported",
               .where = vision.where("attention_dropout"),
               .found = vision.found("attention_dropout"), .expected = "0");
}

VisionConfig read_siglip(const JsonObject& vision) {
  VisionConfig tower = read_tile_tower(
      vision, VisionClass::kSiglip, /*merge=*/1,
      {.layers = 12, .width = 768, .heads = 12, .mlp_width = 3072, .patch = 16, .tile = 224});
  tower.projector_norm = false;
  return tower;
}

/// Newer files say image_token_id, older ones image_token_index.
std::int64_t read_either(const JsonObject& config, const std::string& name, std::int64_t standard,
                         std::int64_t vocab) {
  return read_token(config, std::nullopt, {name + "_id", name + "_index"}, standard, vocab);
}

}  // namespace

ModelConfig read_llava_onevision(const JsonObject& config) {
  const JsonObject vision = section_of(config, "vision_config");
  ModelConfig model;
  model.family = ModelFamily::kLlavaOneVision;
  model.backbone = read_text_config(config, /*tied=*/false);
  const std::optional<JsonObject> text = config.object("text_config");
  model.backbone.tied_head =  // transformers ties them where either says so
      model.backbone.tied_head || text->flag("tie_word_embeddings", false);
  require_siglip(config, vision);
  VisionConfig& tower = model.vision.emplace(read_siglip(vision));
  tower.output_width = model.backbone.width;
  tower.projector_bias = config.flag("multimodal_projector_bias", true);
  tower.max_tiles = read_max_tiles(config);
  check_tile_tower(vision, tower);
  tower.arrangements = read_arrangements(config, tower.tile);
  model.tokens.image_pad = read_either(config, "image_token", 151646, model.backbone.vocab);
  model.tokens.video_pad = read_either(config, "video_token", 151647, model.backbone.vocab);
  return model;
}

}  // namespace tributary::config
