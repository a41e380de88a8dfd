#include "config/family/item_form.h"

#include <algorithm>

namespace tributary::config {
namespace {

Grid as_it_is(const ModelConfig& /*model*/, const Grid& item) { return item; }

std::int64_t tokens_of_picture(const ModelConfig& model, const Grid& item) {
  const VisionConfig& vision = model.vision.value();
  return vision.cuts_tiles() ? tokens_of_tiles(vision, item)
                             : item.patches() / (vision.merge * vision.merge);
}

/// Halves the longer side. All tiles have one size.
Grid half_of_picture(const ModelConfig& model, const Grid& item) {
  const VisionConfig& vision = model.vision.value();
  Grid half{1, item.rows, item.columns};
  if (vision.cuts_tiles()) return half;
  std::int64_t& side = half.rows >= half.columns ? half.rows : half.columns;
  side = std::max(vision.merge, side / 2 / vision.merge * vision.merge);
  return half;
}

Grid positions_of_sound(const ModelConfig& model, const Grid& item) {
  return {1, 1, model.audio.value().positions_of(item)};
}

std::int64_t tokens_of_sound(const ModelConfig& model, const Grid& item) {
  return model.audio.value().tokens_of(item);
}

Grid half_of_sound(const ModelConfig& model, const Grid& item) {
  const AudioConfig& audio = model.audio.value();
  const Grid half = audio.grid_of(item.patches() / 2);
  return audio.tokens_of(half) > 0 ? half : item;
}

}  // namespace

std::int64_t pad_of(const TokenIds& tokens, Modality modality) {
  if (modality == Modality::kAudio) return tokens.audio_pad;
  return modality == Modality::kVideo ? tokens.video_pad : tokens.image_pad;
}

bool is_of_media(const TokenIds& tokens, std::int64_t token) {
  return token == tokens.image_pad || token == tokens.video_pad || token == tokens.vision_start ||
         token == tokens.vision_end || token == tokens.audio_pad;
}

ItemForm picture_form(const VisionConfig& vision) {
  const std::int64_t side = vision.window / vision.patch;
  return {.inside = as_it_is,
          .tokens = tokens_of_picture,
          .half = half_of_picture,
          .window = side * side};
}

ItemForm sound_form(const AudioConfig& audio) {
  return {.inside = positions_of_sound,
          .tokens = tokens_of_sound,
          .half = half_of_sound,
          .window = audio.chunk / kFramesOfPosition,
          .first_layers = 2};
}

}  // namespace tributary::config
