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
  TRIB_REQUIRE(!config.flag("attention_bias", false),
               .what = "config: attention bias is not supported in this family",
               .where = config.where("attention_bias"), .found = "true", .expected = "false");
  check_decoder(config, model.backbone);
  return model;
}

}  // namespace tributary::config
