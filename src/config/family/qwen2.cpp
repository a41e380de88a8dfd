#include "config/family/all_families.h"
#include "config/family/decoder.h"

namespace tributary::config {

ModelConfig read_qwen2(const JsonObject& config) {
  ModelConfig model;
  model.family = ModelFamily::kQwen2;
  model.backbone = read_decoder(config, {});
  BackboneConfig& backbone = model.backbone;
  backbone.head_width = read_head_width(config, backbone);
  backbone.qkv_bias = true;
  backbone.tied_head = config.flag("tie_word_embeddings", false);
  check_decoder(config, backbone);
  return model;
}

}  // namespace tributary::config
