#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/family/model_config.h"
#include "core/sample_shape.h"

namespace tributary::config {

/// Forward work of a module; FLOP, one multiply-add counts 2.
///
/// `linear` is work with weights, `attention` work without. Causal attention is counted in full,
/// 4 * tokens^2 * heads * head_width a layer; half of it is real work under the mask.
struct ModuleWork {
  std::string module = {};
  double linear = 0;
  double outside_layers = 0;  // the share of `linear` that lies in no layer: embedding, head
  double mlp = 0;             // likewise in MLPs
  double attention = 0;
  bool is_causal = false;
  std::int64_t layers = 0;  // that share the work in layers; 0: not counted, as in a projector

  [[nodiscard]] double real_attention() const { return is_causal ? attention / 2 : attention; }
  /// Adds work of the same module.
  ModuleWork& operator+=(const ModuleWork& other);
};

/// The work of a Qwen-VL tower on one image or clip, with exact windows.
/// source: docs/theory/numerics.md, "FLOPs"
[[nodiscard]] ModuleWork count_vision_work(const ModelConfig& model, const Grid& item);
/// The work of its mergers.
[[nodiscard]] ModuleWork count_merger_work(const ModelConfig& model, const Grid& item);
/// The work of Whisper's encoder on one sound, on the positions that hold some of it, and of the
/// linear map behind it.
[[nodiscard]] ModuleWork count_audio_work(const ModelConfig& model, const Grid& item);
[[nodiscard]] ModuleWork count_audio_projector_work(const ModelConfig& model, const Grid& item);
/// The work of the backbone and its head, which runs on target tokens alone.
[[nodiscard]] ModuleWork count_backbone_work(const ModelConfig& model, Tokens tokens,
                                             Tokens target_tokens);

}  // namespace tributary::config
