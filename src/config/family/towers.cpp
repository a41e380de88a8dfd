#include "config/family/towers.h"

#include <algorithm>

#include "config/family/all_families.h"
#include "core/error.h"

namespace tributary::config {

JsonObject section_of(const JsonObject& config, const std::string& key) {
  const std::optional<JsonObject> section = config.object(key);
  TRIB_REQUIRE(section.has_value(), .what = str("config: ", key, " is missing"),
               .where = config.where(key), .expected = "an object {...}");
  return *section;
}

std::int64_t read_side(const JsonObject& vision, const std::string& key, std::int64_t standard) {
  if (vision.found(key).starts_with('[')) {
    const std::vector<std::int64_t> sides = vision.wholes(key, {}, {1, 4096});
    TRIB_REQUIRE(!sides.empty() && sides.front() == sides.back(),
                 .what = "config: sides are not equal", .where = vision.where(key),
                 .found = vision.found(key), .expected = "one size for every side");
    return sides.front();
  }
  return vision.whole(key, standard, {1, 4096});
}

void require_activation(const JsonObject& object, const std::string& key,
                        const std::string& expected) {
  const std::string found = object.text(key, expected);
  TRIB_REQUIRE(found == expected, .what = "config: activation is not supported",
               .where = object.where(key), .found = escaped(found), .expected = expected);
}

std::int64_t read_token(const JsonObject& config, const std::optional<JsonObject>& text,
                        const std::vector<std::string>& names, std::int64_t standard,
                        std::int64_t vocab) {
  const auto find_in = [&](const JsonObject& place) {
    return std::ranges::find_if(names, [&](const std::string& name) { return place.has(name); });
  };
  const bool is_at_top = find_in(config) != names.end() || !text;
  const JsonObject& place = is_at_top ? config : *text;
  const auto key = find_in(place);
  if (key == names.end()) return standard;
  const std::int64_t token = place.whole(*key, std::nullopt, {0, 1 << 26});
  TRIB_REQUIRE(token < vocab, .what = "config: token id outside the vocabulary",
               .where = place.where(*key), .found = str(token), .expected = str("below ", vocab));
  return token;
}

BackboneConfig read_text_section(const JsonObject& config, const std::string& key) {
  const JsonObject text = section_of(config, key);
  const std::string type = text.text("model_type", "qwen2");
  const auto family = std::ranges::find(all_families(), type, &Family::model_type);
  const bool reads_text = family != all_families().end() && !text.object("vision_config");
  TRIB_REQUIRE(reads_text, .what = "config: text model is not supported",
               .where = text.where("model_type"), .found = escaped(type),
               .expected = "qwen2, qwen3 or llama");
  return family->read(text).backbone;
}

BackboneConfig read_text_config(const JsonObject& config, bool tied) {
  BackboneConfig backbone = read_text_section(config, "text_config");
  backbone.tied_head = config.flag("tie_word_embeddings", tied);
  return backbone;
}

void require_last_features(const JsonObject& config, const std::string& selection) {
  TRIB_REQUIRE(config.whole("vision_feature_layer", -1, {-1000, 1000}) == -1,
               .what = "config: features of an inner layer are not supported",
               .where = config.where("vision_feature_layer"),
               .found = config.found("vision_feature_layer"), .expected = "-1, the last layer");
  const std::string found = config.text("vision_feature_select_strategy", selection);
  TRIB_REQUIRE(found == selection, .what = "config: selection of features is not supported",
               .where = config.where("vision_feature_select_strategy"), .found = escaped(found),
               .expected = selection);
  require_activation(config, "projector_hidden_act", "gelu");
}

VisionConfig read_tile_tower(const JsonObject& vision, VisionClass kind, std::int64_t merge,
                             const TileTowerDefaults& defaults) {
  VisionConfig tower;
  tower.kind = kind;
  tower.layers = vision.whole("num_hidden_layers", defaults.layers, kLayerRange);
  tower.width = vision.whole("hidden_size", defaults.width, {1, 1 << 20});
  tower.heads = vision.whole("num_attention_heads", defaults.heads, {1, 1 << 14});
  tower.mlp_width = vision.whole("intermediate_size", defaults.mlp_width, {1, 1 << 22});
  tower.channels = vision.whole("num_channels", 3, {1, 64});
  tower.patch = read_side(vision, "patch_size", defaults.patch);
  tower.temporal_patch = 1;
  tower.merge = merge;
  tower.window = 0;
  tower.tile = read_side(vision, "image_size", defaults.tile);
  tower.positions_side = tower.tile_side();
  tower.norm_epsilon = vision.number("layer_norm_eps", 1e-6, 0.0);
  return tower;
}

void check_tile_tower(const JsonObject& vision, const VisionConfig& tower) {
  TRIB_REQUIRE(tower.width % tower.heads == 0,
               .what = "config: vision width does not divide over the heads",
               .where = vision.where("num_attention_heads"),
               .found = str("width ", tower.width, ", ", tower.heads, " heads"),
               .expected = "hidden_size to be a multiple of num_attention_heads");
  TRIB_REQUIRE(tower.tile_side() > 0 && tower.tile_side() % tower.merge == 0,
               .what = "config: patches of a tile do not divide into tokens",
               .where = vision.where("image_size"),
               .found = str(tower.tile_side(), " patches a side, ", tower.merge, " of a token"),
               .expected = "image_size / patch_size to be a multiple of those of a token");
}

}  // namespace tributary::config
