#include "model/encoder/whisper_audio.h"
#include "model/family/all_families.h"
#include "model/family/multimodal_model.h"

namespace tributary::model {
namespace {

std::vector<EncoderPart> make_audio(const config::ModelConfig& config, const PlaceOf& place_of) {
  std::vector<EncoderPart> parts;
  parts.push_back(
      {.module = "audio",
       .takes = {{Modality::kAudio, config.tokens.audio_pad, "sounds"}},
       .encoder = std::make_unique<WhisperAudio>(
           config.audio.value(), place_of("audio"),
           WhisperNames{.tower = "audio_tower.", .projector = "multi_modal_projector.linear"})});
  return parts;
}

}  // namespace

std::unique_ptr<Model> make_qwen2_audio(const config::ModelConfig& config,
                                        const ModelLayout& layouts) {
  return make_multimodal_model(
      config, layouts, make_audio,
      {.prefix = "language_model.model.", .head = "language_model.lm_head"});
}

}  // namespace tributary::model
