#pragma once

#include <string>
#include <vector>

#include "config/artifact/module_graph.h"
#include "config/reading/json_object.h"

namespace tributary::config {

/// An encoder, then the projector that brings its features to the width of the backbone.
using EncoderChain = std::vector<ModuleNode>;

/// Vision tower and merger of Qwen2-VL, Qwen2.5-VL, Qwen3-VL, and of the Omni thinkers, which have
/// the same towers.
///
/// errors: Fault::kInput naming file and key; so do all functions below
[[nodiscard]] EncoderChain qwen_vision(const JsonObject& vision, const std::string& family,
                                       std::int64_t backbone_width);

/// A tower of equal blocks over the patches of an image, without projector: SigLIP, CLIP,
/// InternViT. `tower` is its model_type where the file does not give it.
[[nodiscard]] ModuleNode patch_tower(const JsonObject& vision, const std::string& tower,
                                     const std::string& name);

/// As patch_tower, with a projector: two linear layers that take `merge` patches as one item.
[[nodiscard]] EncoderChain plain_vision(const JsonObject& vision, const std::string& tower,
                                        std::int64_t backbone_width, std::int64_t merge);

/// The Whisper encoder of Qwen2-Audio and, with windows, of the Qwen2.5-Omni thinker. Its items are
/// the positions after both convolutions.
[[nodiscard]] EncoderChain whisper_audio(const JsonObject& audio, const std::string& family,
                                         std::int64_t backbone_width);

/// The encoder of the Qwen3-Omni thinker; its items are the positions after all convolutions.
[[nodiscard]] EncoderChain convolved_audio(const JsonObject& audio, std::int64_t backbone_width);

}  // namespace tributary::config
