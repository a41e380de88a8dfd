#pragma once

#include <string>
#include <vector>

#include "config/artifact/module_graph.h"
#include "config/reading/json_object.h"

namespace tributary::config {

/// An encoder and the projector that brings its features to the width of the backbone, in the order
/// of their flow.
using EncoderChain = std::vector<ModuleNode>;

/// Vision tower and merger of Qwen2-VL, Qwen2.5-VL, Qwen3-VL and the Omni thinkers that have
/// theirs.
///
/// errors: as all below, Fault::kInput naming file and key
[[nodiscard]] EncoderChain qwen_vision(const JsonObject& vision, const std::string& family,
                                       std::int64_t backbone_width);

/// Equal blocks over the patches of an image, alone: SigLIP, CLIP, InternViT. `tower` is its
/// model_type, for a file that does not say it.
[[nodiscard]] ModuleNode patch_tower(const JsonObject& vision, const std::string& tower,
                                     const std::string& name);

/// Such a tower, and two linear layers behind `merge` patches.
[[nodiscard]] EncoderChain plain_vision(const JsonObject& vision, const std::string& tower,
                                        std::int64_t backbone_width, std::int64_t merge);

/// The Whisper encoder of Qwen2-Audio and, with windows, of the Qwen2.5-Omni thinker. Its items are
/// positions after both convolutions.
[[nodiscard]] EncoderChain whisper_audio(const JsonObject& audio, const std::string& family,
                                         std::int64_t backbone_width);

/// The encoder of the Qwen3-Omni thinker; its items are positions after all convolutions.
[[nodiscard]] EncoderChain convolved_audio(const JsonObject& audio, std::int64_t backbone_width);

}  // namespace tributary::config
