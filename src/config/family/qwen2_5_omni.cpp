#include "config/family/all_families.h"
#include "config/family/decoder.h"
#include "config/family/towers.h"
#include "core/error.h"

namespace tributary::config {
namespace {

constexpr DecoderDefaults kOmniText{.layers = 28,
                                    .width = 3584,
                                    .heads = 28,
                                    .kv_heads = 4,
                                    .mlp_width = 18944,
                                    .vocab = 152064,
                                    .rope_theta = 1e6};
constexpr std::int64_t kMaxPositions = 15000;  // 300 s, as its feature extractor takes

AudioConfig read_chunked_whisper(const JsonObject& audio, std::int64_t backbone_width) {
  AudioConfig tower = read_whisper(audio, audio.whole("output_dim", 3584, {1, 1 << 20}));
  TRIB_REQUIRE(tower.output_width == backbone_width,
               .what = "config: features of sound do not fit the backbone",
               .where = audio.where("output_dim"), .found = str(tower.output_width),
               .expected = str("the backbone's hidden_size, ", backbone_width));
  tower.chunk = 2 * audio.whole("n_window", 100, {1, 1 << 16});
  TRIB_REQUIRE(tower.chunk / kFramesOfPosition <= tower.positions,
               .what = "config: chunks of sound are longer than the table of positions",
               .where = audio.where("n_window"), .found = audio.found("n_window"),
               .expected = str("at most max_source_positions, ", tower.positions));
  tower.positions = kMaxPositions;
  return tower;
}

}  // namespace

ModelConfig read_qwen2_5_omni_thinker(const JsonObject& config) {
  ModelConfig model;
  model.family = ModelFamily::kQwen2_5OmniThinker;
  model.backbone = read_mrope_text(section_of(config, "text_config"), kOmniText,
                                   config.flag("tie_word_embeddings", false));
  const std::int64_t width = model.backbone.width;
  model.vision = read_qwen2_5_tower(section_of(config, "vision_config"), width);
  model.vision->splits_qkv = true;
  model.vision->keeps_fractions = true;
  model.vision->tokens_per_second =
      static_cast<double>(config.whole("position_id_per_seconds", 25, {1, 1 << 16}));
  model.audio = read_chunked_whisper(section_of(config, "audio_config"), width);
  const auto token = [&](const std::string& name, std::int64_t standard) {
    return read_token(config, std::nullopt, {name + "_index", name + "_id"}, standard,
                      model.backbone.vocab);
  };
  model.tokens.image_pad = token("image_token", 151655);
  model.tokens.video_pad = token("video_token", 151656);
  model.tokens.audio_pad = token("audio_token", 151646);
  return model;
}

}  // namespace tributary::config
