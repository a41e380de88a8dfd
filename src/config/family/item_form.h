#pragma once

#include <cstdint>

#include "config/family/model_config.h"
#include "core/sample_shape.h"

namespace tributary::config {

/// How the items of an encoder look to its layers, and to the backbone.
struct ItemForm {
  /// The grid of an item inside of the layers, where each step in time attends within itself: of a
  /// sound its positions.
  Grid (*inside)(const ModelConfig& model, const Grid& item) = nullptr;
  /// Tokens of the backbone that an item becomes.
  std::int64_t (*tokens)(const ModelConfig& model, const Grid& item) = nullptr;
  /// An item about half as large, as long as one step in time; the same where none is smaller.
  Grid (*half)(const ModelConfig& model, const Grid& item) = nullptr;
  std::int64_t window = 0;        // rows of a full window inside of the layers; 0: there is none
  std::int64_t first_layers = 1;  // that stand in front of the blocks in the model's graph
};

/// The token that stands for the rows of items of one modality; -1: the model takes none.
[[nodiscard]] std::int64_t pad_of(const TokenIds& tokens, Modality modality);
/// Whether a token stands for media, or in front of or behind them.
[[nodiscard]] bool is_of_media(const TokenIds& tokens, std::int64_t token);

[[nodiscard]] ItemForm picture_form(const VisionConfig& vision);
[[nodiscard]] ItemForm sound_form(const AudioConfig& audio);

}  // namespace tributary::config
