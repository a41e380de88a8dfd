#include "model/encoder/qwen_vision.h"
#include "model/family/all_families.h"
#include "model/family/multimodal_model.h"

namespace tributary::model {
namespace {

std::vector<EncoderPart> make_vision(const config::ModelConfig& config, const PlaceOf& place_of,
                                     const std::string& prefix) {
  std::vector<EncoderPart> parts;
  parts.push_back(
      {.module = "vision",
       .takes = {{Modality::kImage, config.tokens.image_pad, "images"},
                 {Modality::kVideo, config.tokens.video_pad, "clips"}},
       .encoder = std::make_unique<QwenVision>(config.vision.value(), place_of("vision"), prefix)});
  return parts;
}

}  // namespace

std::unique_ptr<Model> make_qwen_vl(const config::ModelConfig& config, const ModelLayout& layouts) {
  // Released files of Qwen3-VL have the names that transformers 5.x uses in memory.
  const bool third = config.family == config::ModelFamily::kQwen3Vl;
  const std::string tower = third ? "model.visual." : "visual.";
  return make_multimodal_model(config, layouts,
                               [&](const config::ModelConfig& of, const PlaceOf& place_of) {
                                 return make_vision(of, place_of, tower);
                               },
                               {.prefix = third ? "model.language_model." : "model."});
}

}  // namespace tributary::model
