#include "config/family/all_families.h"
#include "config/family/decoder.h"
#include "core/error.h"

namespace tributary::config {

ModelConfig read_llama(const JsonObject& config) {
  ModelConfig model;
  model.family = ModelFamily::kLlama;
  model.backbone =
      read_decoder(config, {.mlp_width = 11008, .vocab = 32000, .max_positions = 2048});
  BackboneConfig& backbone = model.backbone;
  backbone.head_width = read_head_width(config, backbone);
  backbone.tied_head = config.flag("tie_word_embeddings", false);
  require_no_bias(config);
  TRIB_REQUIRE(!config.flag("mlp_bias", false), .what = "config: MLP bias is not supported",
               .where = config.where("mlp_bias"), .found = "true", .expected = "false");
  check_decoder(config, backbone);
  return model;
}

}  // namespace tributary::config
