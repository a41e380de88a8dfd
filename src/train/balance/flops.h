#pragma once

#include <span>
#include <string>
#include <vector>

#include "config/family/model_config.h"
#include "config/recompute.h"
#include "core/sample_shape.h"

namespace tributary::train {

/// Forward work of one sample, module by module; FLOP, one multiply-add counts 2.
///
/// `linear` is work with weights, `attention` work without. Attention of the backbone is counted
/// in full, 4 * tokens^2 * heads * head_width a layer; half of it is real work under the causal
/// mask.
struct ForwardFlops {
  double vision_linear = 0;
  double patch_embedding = 0;   // the share of vision_linear that lies in no layer
  double vision_mlp = 0;        // likewise in MLPs
  double vision_attention = 0;  // exact windows, full where the layer is
  double projector = 0;
  double backbone_linear = 0;
  double backbone_mlp = 0;  // the share of backbone_linear that lies in MLPs
  double backbone_attention = 0;
  double head = 0;  // only on target tokens

  ForwardFlops& operator+=(const ForwardFlops& other);
};

/// source: docs/theory/numerics.md, "FLOPs"
[[nodiscard]] ForwardFlops count_forward(const config::ModelConfig& config,
                                         const SampleShape& shape);

/// Forward and backward work of a training step under the two attention conventions.
struct TrainFlops {
  double full = 0;      // 12 * tokens^2 * d * layers: the causal mask is not counted
  double causal = 0;    // 6 * tokens^2 * d * layers
  double hardware = 0;  // causal, and what the layers that are run again in backward add
};

/// Counts what is trained: a frozen module costs only its input gradient, and not even that where
/// nothing trainable lies before it. Recompute is not useful work: it counts only in `hardware`, as
/// one more forward of the layers, or the MLPs, of a module that has a backward.
///
/// units: `frozen` and `recomputed` name modules: vision, projector, backbone
[[nodiscard]] TrainFlops count_training(const ForwardFlops& forward,
                                        std::span<const std::string> frozen,
                                        std::span<const config::ModuleRecompute> recomputed);

/// The formulas of MFU and HFU in words, for environment.json.
[[nodiscard]] std::string describe_mfu();

}  // namespace tributary::train
