#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/sample_shape.h"

namespace tributary::config {

enum class ModelFamily {
  kQwen2,
  kQwen3,
  kLlama,
  kQwen2Vl,
  kQwen2_5Vl,
  kQwen3Vl,
  kInternVl,
  kLlavaOneVision,
  kQwen2Audio,
  kQwen2_5OmniThinker,
  kInternVlChat  // InternVL under the names of its authors
};

/// How Llama 3.1 stretches rotary positions beyond the context that it was first trained on.
struct RopeScaling {
  double factor = 8;
  double low_frequency = 1;
  double high_frequency = 4;
  std::int64_t original_positions = 8192;
};

/// A decoder-only language model with grouped-query attention, rotary positions and SwiGLU.
struct BackboneConfig {
  std::int64_t layers = 0;
  std::int64_t width = 0;  // hidden size
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_width = 0;
  std::int64_t mlp_width = 0;
  std::int64_t vocab = 0;
  std::int64_t max_positions = 0;
  double rope_theta = 0;
  double norm_epsilon = 0;
  bool qkv_bias = false;  // Qwen2 class
  bool qk_norm = false;   // Qwen3 class
  bool tied_head = false;
  bool has_other_head = false;  // config.json ties it, but the weights hold one that differs
  std::vector<std::int64_t>
      mrope_section;                  // halves of head_width by (time, row, column); empty: 1-D
  bool mrope_interleaved = false;     // Qwen3-VL: axes in turns instead of one after the other
  std::int64_t deepstack_levels = 0;  // Qwen3-VL: features added behind the first layers
  std::optional<RopeScaling> rope_scaling = {};
  bool dynamic_rope = false;  // plain up to max_positions; longer sequences have another one
  double initializer_range = 0.02;

  /// The longest sequence whose positions are known; null: any.
  [[nodiscard]] std::optional<std::int64_t> max_tokens() const {
    return dynamic_rope ? std::optional(max_positions) : std::nullopt;
  }
};

/// The class of a vision tower: its norms, activations, biases and the names of parameters.
enum class VisionClass { kQwen2Vl, kQwen2_5Vl, kQwen3Vl, kInternVit, kSiglip };

/// Tiles over a picture.
struct TileArrangement {
  std::int64_t rows = 1;
  std::int64_t columns = 1;

  [[nodiscard]] std::int64_t tiles() const { return rows * columns; }
  friend bool operator==(const TileArrangement&, const TileArrangement&) = default;
};

/// A vision tower and its projector.
struct VisionConfig {
  VisionClass kind = VisionClass::kQwen2_5Vl;
  std::int64_t layers = 0;
  std::int64_t width = 0;
  std::int64_t heads = 0;
  std::int64_t mlp_width = 0;
  std::int64_t output_width = 0;  // the backbone's width
  std::int64_t channels = 3;
  std::int64_t patch = 14;          // pixels a side
  std::int64_t temporal_patch = 2;  // frames
  std::int64_t merge = 2;           // patches a side of one merged token
  std::int64_t window = 112;        // pixels a side; 0: each frame is one
  std::vector<std::int64_t> full_attention_layers;
  std::vector<std::int64_t> deepstack_layers = {};  // whose features are levels of their own
  std::int64_t positions_side = 0;                  // of a learned table; 0: none
  double tokens_per_second = 2;                     // of Qwen2.5-VL
  bool keeps_fractions = false;  // of seconds, in the positions of transformers too
  bool splits_qkv = false;       // query, key and value are parameters of their own
  double norm_epsilon = 1e-6;
  double initializer_range = 0.02;
  std::int64_t tile = 0;     // pixels a side of the tiles of a picture; 0: pictures of any size
  bool class_token = false;  // a learned row in front of the patches of each tile
  bool qkv_bias = true;      // of a tower of tiles, as the fields below
  bool qk_norm = false;      // InternViT-6B: over all heads of a row
  bool layer_norms = true;   // else root mean square
  std::optional<double> layer_scale = {};  // of what blocks add, at the start; null: none
  bool projector_norm = true;
  bool projector_bias = true;
  std::vector<TileArrangement> arrangements = {};  // of LLaVA-OneVision
  std::int64_t max_tiles = 0;  // whose tokens it keeps, or into which it cuts; 0: not said

  /// Whether pictures are cut into tiles of one size, each of them encoded by itself.
  [[nodiscard]] bool cuts_tiles() const { return tile > 0; }
  /// Whether a clip is a picture of a tile for each frame, with words of its own for each.
  [[nodiscard]] bool clips_are_pictures() const { return kind == VisionClass::kInternVit; }
  /// Rows that a tile, or a frame of so many patches, has inside the tower.
  [[nodiscard]] std::int64_t frame_rows(std::int64_t patches) const {
    return patches + (class_token ? 1 : 0);
  }
  /// Patches a side of a tile.
  [[nodiscard]] std::int64_t tile_side() const { return tile / patch; }
  /// The width between both maps of the projector, behind `merge` x `merge` patches of one token.
  [[nodiscard]] std::int64_t projector_width() const {
    return cuts_tiles() ? output_width : merge * merge * width;
  }
  /// Whether the text in front of each frame says its time, so that positions see single pictures.
  [[nodiscard]] bool splits_clips() const { return kind == VisionClass::kQwen3Vl; }
  [[nodiscard]] std::int64_t patch_width() const {
    return channels * temporal_patch * patch * patch;
  }
};

/// Tokens of the backbone that an item becomes in a family of tiles.
[[nodiscard]] std::int64_t tokens_of_tiles(const VisionConfig& vision, const Grid& item);

/// The encoder of sound of Whisper, which Qwen2-Audio has. Qwen2.5-Omni encodes chunks of a sound
/// by themselves, and its positions begin anew in each.
struct AudioConfig {
  std::int64_t layers = 0;
  std::int64_t width = 0;
  std::int64_t heads = 0;
  std::int64_t mlp_width = 0;
  std::int64_t output_width = 0;  // the backbone's width
  std::int64_t mel_bins = 128;    // of a frame of the spectrogram
  std::int64_t positions = 1500;  // at most, of one sound; each is two frames
  std::int64_t chunk = 0;         // frames that are encoded by themselves; 0: the whole sound
  double initializer_range = 0.02;

  /// Frames of the longest sound.
  [[nodiscard]] std::int64_t max_frames() const { return kFramesOfPosition * positions; }
  /// The item of a sound of `frames`: those that its positions depend on. Without chunks these are
  /// one more than two for each position.
  [[nodiscard]] Grid grid_of(std::int64_t frames) const {
    if (chunk > 0) return {1, 1, frames};
    const std::int64_t used = (frames + kFramesOfPosition - 1) / kFramesOfPosition;
    return {1, 1, std::min(kFramesOfPosition * used + 1, max_frames())};
  }
  /// Positions of an item, and the tokens that pairs of them become.
  [[nodiscard]] std::int64_t positions_of(const Grid& item) const {
    return (item.patches() + (chunk > 0 ? 1 : 0)) / kFramesOfPosition;
  }
  [[nodiscard]] std::int64_t tokens_of(const Grid& item) const { return positions_of(item) / 2; }
};

struct TokenIds {
  std::int64_t image_pad = -1;
  std::int64_t video_pad = -1;  // -1: clips are pictures of a tile for each frame
  std::int64_t vision_start = -1;
  std::int64_t vision_end = -1;
  std::int64_t audio_pad = -1;
};

/// A model as its Hugging Face config.json describes it.
struct ModelConfig {
  ModelFamily family = ModelFamily::kQwen2;
  BackboneConfig backbone;
  std::optional<VisionConfig> vision;
  std::optional<AudioConfig> audio = {};
  TokenIds tokens;
  /// What names of its tensors begin with in the directory of a larger model; or empty.
  std::string tensor_prefix = {};
};

/// Reads DIRECTORY/config.json; accepts the flat layout of released checkpoints and the nested one
/// that transformers 5.x writes, old `rope_scaling` and new `rope_parameters`. As in transformers,
/// a head is not tied where the weights in DIRECTORY hold one that differs from the embedding.
///
/// errors: Fault::kInput naming the file and the key: unknown family, missing or impossible value
/// source: docs/theory/numerics.md, "Defaults of missing fields"
[[nodiscard]] ModelConfig read_model_config(const std::string& directory);

/// Whether the weights in a directory hold a head that differs from the embedding; false where they
/// are not there, or cannot be read: loading them says why.
/// cost: reads both tensors up to where they differ
[[nodiscard]] bool holds_other_head(const std::string& directory);

/// Number of parameters; tied embeddings counted once.
[[nodiscard]] std::int64_t count_parameters(const ModelConfig& config);

}  // namespace tributary::config
