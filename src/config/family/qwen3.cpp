#include "config/family/all_families.h"
#include "config/family/decoder.h"
#include "core/error.h"

namespace tributary::config {

ModelConfig read_qwen3(const JsonObject& config) {
  ModelConfig model;
  model.family = ModelFamily::kQwen3;
  model.backbone = read_decoder(config, {});
  model.backbone.head_width = config.whole("head_dim", 128, {1, 1 << 14});
  model.backbone.qk_norm = true;
  model.backbone.tied_head = config.flag("tie_word_embeddings", false);
  require_no_bias(config);
  check_decoder(config, model.backbone);
  return model;
}

}  // namespace tributary::config
