#pragma once

#include "config/family/model_config.h"

namespace tributary::config {

/// A backbone with 16 heads, and a vision tower of 4 layers with 6 heads.
inline ModelConfig small_model(std::int64_t kv_heads) {
  ModelConfig model;
  model.backbone.layers = 8;
  model.backbone.heads = 16;
  model.backbone.kv_heads = kv_heads;
  model.backbone.mlp_width = 512;
  VisionConfig& vision = model.vision.emplace();
  vision.layers = 4;
  vision.heads = 6;
  vision.mlp_width = 96;
  return model;
}

}  // namespace tributary::config
