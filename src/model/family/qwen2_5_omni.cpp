#include "model/encoder/qwen_vision.h"
#include "model/encoder/whisper_audio.h"
#include "model/family/all_families.h"
#include "model/family/multimodal_model.h"

namespace tributary::model {
namespace {

std::vector<EncoderPart> make_senses(const config::ModelConfig& config, const PlaceOf& place_of) {
  std::vector<EncoderPart> parts;
  parts.push_back({.module = "vision",
                   .takes = {{Modality::kImage, config.tokens.image_pad, "images"},
                             {Modality::kVideo, config.tokens.video_pad, "clips"}},
                   .encoder = std::make_unique<QwenVision>(config.vision.value(),
                                                           place_of("vision"), "visual.")});
  parts.push_back(
      {.module = "audio",
       .takes = {{Modality::kAudio, config.tokens.audio_pad, "sounds"}},
       .encoder = std::make_unique<WhisperAudio>(config.audio.value(), place_of("audio"),
                                                 WhisperNames{.tower = "audio_tower.",
                                                              .norm = "ln_post",
                                                              .projector = "audio_tower.proj",
                                                              .projector_module = "audio_projector",
                                                              .unused = "audio_bos_eos_token"})});
  return parts;
}

}  // namespace

std::unique_ptr<Model> make_qwen2_5_omni_thinker(const config::ModelConfig& config,
                                                 const ModelLayout& layouts) {
  return make_multimodal_model(config, layouts, make_senses, {});
}

}  // namespace tributary::model
