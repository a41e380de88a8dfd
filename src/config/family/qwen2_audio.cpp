#include "config/family/all_families.h"
#include "config/family/decoder.h"
#include "config/family/towers.h"
#include "core/error.h"

namespace tributary::config {

namespace {

void require_no_dropout(const JsonObject& audio) {
  for (const char* key :
       {"dropout", "attention_dropout", "activation_dropout", "encoder_layerdrop"}) {
    const double found = audio.number(key, 0, 0);
    TRIB_REQUIRE(found == 0, .what = "config: dropout in the encoder of sound is not supported",
                 .where = audio.where(key), .found = str(found), .expected = "0");
  }
}

}  // namespace

AudioConfig read_whisper(const JsonObject& audio, std::int64_t output_width) {
  AudioConfig tower;
  tower.layers = audio.whole("encoder_layers", 32, kLayerRange);
  tower.width = audio.whole("d_model", 1280, {1, 1 << 20});
  tower.heads = audio.whole("encoder_attention_heads", 20, {1, 1 << 14});
  tower.mlp_width = audio.whole("encoder_ffn_dim", 5120, {1, 1 << 22});
  tower.mel_bins = audio.whole("num_mel_bins", 128, {1, 1 << 12});
  tower.positions = audio.whole("max_source_positions", 1500, {2, 1 << 20});
  tower.output_width = output_width;
  tower.initializer_range = audio.number("initializer_range", 0.02, 0.0);
  TRIB_REQUIRE(tower.width % (2 * tower.heads) == 0,
               .what = "config: width of the encoder of sound does not divide over the heads",
               .where = audio.where("encoder_attention_heads"),
               .found = str("width ", tower.width, ", ", tower.heads, " heads"),
               .expected = "heads of one even width");
  require_activation(audio, "activation_function", "gelu");
  TRIB_REQUIRE(!audio.flag("scale_embedding", false),
               .what = "config: scaled embedding of sound is not supported",
               .where = audio.where("scale_embedding"), .found = "true", .expected = "false");
  require_no_dropout(audio);
  return tower;
}

ModelConfig read_qwen2_audio(const JsonObject& config) {
  const JsonObject text = section_of(config, "text_config");
  const std::string type = text.text("model_type", "qwen2");
  TRIB_REQUIRE(type == "qwen2", .what = "config: text model is not supported",
               .where = text.where("model_type"), .found = escaped(type), .expected = "qwen2");
  ModelConfig model = read_qwen2(text);
  model.family = ModelFamily::kQwen2Audio;
  model.backbone.tied_head = false;  // the class never ties, whatever the file says
  model.audio = read_whisper(section_of(config, "audio_config"), model.backbone.width);
  model.tokens.audio_pad = read_token(config, std::nullopt, {"audio_token_index", "audio_token_id"},
                                      151646, model.backbone.vocab);
  return model;
}

}  // namespace tributary::config
