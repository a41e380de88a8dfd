#include "config/family/model_config.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <span>

#include "config/family/all_families.h"
#include "config/family/anyres.h"
#include "config/family/tokenizer_files.h"
#include "config/family/towers.h"
#include "core/error.h"
#include "core/file/given_file.h"
#include "core/file/weight_directory.h"

namespace tributary::config {
namespace {

constexpr std::size_t kMaxBytes = std::size_t{1} << 20;

const Family& find_family(const JsonObject& config) {
  const std::string model_type = config.text("model_type", "");
  const std::vector<Family>& families = all_families();
  const auto family = std::find_if(families.begin(), families.end(), [&](const Family& known) {
    return known.model_type == model_type ||
           (!known.whole_type.empty() && known.whole_type == model_type);
  });
  std::string known;
  for (const Family& each : families) {
    known += (known.empty() ? "" : ", ") + each.model_type;
    if (!each.whole_type.empty()) known += ", " + each.whole_type;
  }
  TRIB_REQUIRE(family != families.end(), .what = "config: model family is not known",
               .where = config.where("model_type"), .found = config.found("model_type"),
               .expected = str("one of ", known));
  return *family;
}

std::int64_t count_backbone(const BackboneConfig& b) {
  const std::int64_t query = b.heads * b.head_width;
  const std::int64_t key = b.kv_heads * b.head_width;
  std::int64_t layer = b.width * (query + 2 * key) + query * b.width + 3 * b.width * b.mlp_width;
  layer += 2 * b.width;  // norms
  if (b.qkv_bias) layer += query + 2 * key;
  if (b.qk_norm) layer += 2 * b.head_width;
  return b.layers * layer + b.vocab * b.width * (b.tied_head ? 1 : 2) + b.width;
}

std::int64_t count_vision(const VisionConfig& v) {
  const bool has_layer_norms = v.kind != VisionClass::kQwen2_5Vl;
  const bool is_gated = v.kind == VisionClass::kQwen2_5Vl;
  const std::int64_t of_norm = has_layer_norms ? 2 : 1;
  const std::int64_t d = v.width;
  const std::int64_t attention = (3 * d * d + 3 * d) + (d * d + d);
  const std::int64_t mlp =
      (is_gated ? 2 : 1) * (d * v.mlp_width + v.mlp_width) + (v.mlp_width * d + d);
  const std::int64_t merged = v.merge * v.merge * d;
  const std::int64_t maps = (merged * merged + merged) + (merged * v.output_width + v.output_width);
  const std::int64_t levels = std::ssize(v.deepstack_layers) * (of_norm * merged + maps);
  const std::int64_t positions = v.positions_side * v.positions_side * d;
  const std::int64_t bias = v.kind == VisionClass::kQwen3Vl ? d : 0;
  return v.patch_width() * d + bias + positions + v.layers * (2 * of_norm * d + attention + mlp) +
         of_norm * d + maps + levels;
}

/// A tower of tiles and its projector.
std::int64_t count_tile_vision(const VisionConfig& v) {
  const std::int64_t d = v.width;
  const std::int64_t norm = v.layer_norms ? 2 * d : d;
  const std::int64_t attention = 4 * d * d + (v.qkv_bias ? 3 * d : 0) + d + (v.qk_norm ? 2 * d : 0);
  const std::int64_t mlp = 2 * d * v.mlp_width + v.mlp_width + d;
  const std::int64_t scales = v.layer_scale ? 2 * d : 0;
  const std::int64_t embedding = (v.patch_width() + 1) * d + (v.class_token ? d : 0) +
                                 v.frame_rows(v.positions_side * v.positions_side) * d;
  const std::int64_t merged = v.merge * v.merge * d;
  const std::int64_t projector = (v.projector_norm ? 2 * merged : 0) + merged * v.output_width +
                                 v.output_width * v.output_width +
                                 (v.projector_bias ? 2 * v.output_width : 0);
  const std::int64_t siglip = v.kind == VisionClass::kSiglip ? 2 * d + v.output_width : 0;
  return embedding + v.layers * (2 * norm + attention + mlp + scales) + projector + siglip;
}

/// The tower, and the linear map behind it. Keys have no bias.
std::int64_t count_audio(const AudioConfig& a) {
  const std::int64_t d = a.width;
  const std::int64_t convolutions = 3 * a.mel_bins * d + d + 3 * d * d + d;
  const std::int64_t layer =
      4 * d + (4 * d * d + 3 * d) + (d * a.mlp_width + a.mlp_width) + (a.mlp_width * d + d);
  // Chunks need no table; their class has a pair of unused rows.
  const std::int64_t table = a.chunk > 0 ? 2 * a.output_width : a.positions * d;
  return convolutions + table + a.layers * layer + 2 * d + (d * a.output_width + a.output_width);
}

}  // namespace

ModelConfig parse_model_config(std::string_view text, const std::string& where) {
  const Json json = parse_json(text, where, {.max_bytes = kMaxBytes});
  const JsonObject config(json, where);
  const Family& family = find_family(config);
  if (config.text("model_type", "") == family.model_type) return family.read(config);
  ModelConfig model = family.read(section_of(config, family.part + "_config"));
  model.tensor_prefix = family.part + ".";
  return model;
}

ModelConfig read_model_config(const std::string& directory) {
  const std::string path = directory + (directory.ends_with('/') ? "" : "/") + "config.json";
  ModelConfig model = parse_model_config(
      read_given_file(
          path, kMaxBytes,
          {.what = "config: file cannot be read",
           .fix = "give a model directory in Hugging Face layout, with config.json (model.path)"}),
      path);
  if (const std::string& word = entry_of(model.family).image_word; !word.empty()) {
    model.tokens.image_pad = find_added_token(directory, word).value_or(model.tokens.image_pad);
    TRIB_REQUIRE(model.tokens.image_pad >= 0 && model.tokens.image_pad < model.backbone.vocab,
                 .what = "config: the token of pictures is outside of the vocabulary",
                 .where = directory, .found = str(word, ", ", model.tokens.image_pad),
                 .expected = str("below ", model.backbone.vocab));
  }
  BackboneConfig& backbone = model.backbone;
  backbone.has_other_head = backbone.tied_head && holds_other_head(directory);
  backbone.tied_head = backbone.tied_head && !backbone.has_other_head;
  return model;
}

bool holds_other_head(const std::string& directory) {
  std::optional<WeightDirectory> weights;
  try {
    weights.emplace(directory);
  } catch (const Error&) {
    return false;
  }
  const auto find_ending = [&](std::string_view end) {
    return std::ranges::find_if(weights->tensors(),
                                [&](const auto& tensor) { return tensor.first.ends_with(end); });
  };
  const auto head = find_ending("lm_head.weight");
  const auto embedding = find_ending("embed_tokens.weight");
  if (head == weights->tensors().end() || embedding == weights->tensors().end()) return false;
  const std::span<const std::byte> one = head->second.bytes();
  const std::span<const std::byte> other = embedding->second.bytes();
  return one.size() != other.size() || std::memcmp(one.data(), other.data(), one.size()) != 0;
}

std::int64_t tokens_of_tiles(const VisionConfig& vision, const Grid& item) {
  if (vision.kind != VisionClass::kSiglip) return item.patches() / (vision.merge * vision.merge);
  const std::int64_t tile = vision.tile_side() * vision.tile_side();
  if (item.mosaic.tile_columns == 0) {
    const std::int64_t side = clip_side_of(vision);
    return item.time * side * side + 1;
  }
  if (item.time == 1) return tile + 1;
  const TokenRows rows = token_rows_of(vision, item.mosaic);
  return tile + rows.rows * (rows.columns + 1);
}

// source: docs/theory/numerics.md, "Parameter counts"
std::int64_t count_parameters(const ModelConfig& config) {
  std::int64_t parameters = count_backbone(config.backbone);
  if (config.vision)
    parameters += (config.vision->cuts_tiles() ? count_tile_vision : count_vision)(*config.vision);
  if (config.audio) parameters += count_audio(*config.audio);
  return parameters;
}

}  // namespace tributary::config
