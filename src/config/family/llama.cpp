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
  if (!config.has("head_dim"))
    TRIB_REQUIRE(backbone.width % backbone.heads == 0,
                 .what = "config: width does not divide over the heads",
                 .where = config.where("hidden_size"),
                 .found = str("width ", backbone.width, ", ", backbone.heads, " heads"),
                 .expected = "hidden_size to be a multiple of num_attention_heads");
  backbone.head_width =
      config.whole_or_null("head_dim", backbone.width / backbone.heads, {1, 1 << 14});
  backbone.tied_head = config.flag("tie_word_embeddings", false);
  require_no_bias(config);
  TRIB_REQUIRE(!config.flag("mlp_bias", false), .what = "config: MLP bias is not supported",
               .where = config.where("mlp_bias"), .found = "true", .expected = "false");
  check_decoder(config, backbone);
  return model;
}

}  // namespace tributary::config
