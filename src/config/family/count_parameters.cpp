#include "config/family/model_config.h"

namespace tributary::config {
namespace {

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
  const std::int64_t d = v.width;
  const std::int64_t attention = (3 * d * d + 3 * d) + (d * d + d);
  const std::int64_t mlp = 2 * (d * v.mlp_width + v.mlp_width) + (v.mlp_width * d + d);
  const std::int64_t merged = v.merge * v.merge * d;
  const std::int64_t merger =
      d + (merged * merged + merged) + (merged * v.output_width + v.output_width);
  return v.patch_width() * d + v.layers * (2 * d + attention + mlp) + merger;
}

}  // namespace

// source: docs/theory/numerics.md, "Parameter counts"
std::int64_t count_parameters(const ModelConfig& config) {
  return count_backbone(config.backbone) + (config.vision ? count_vision(*config.vision) : 0);
}

}  // namespace tributary::config
