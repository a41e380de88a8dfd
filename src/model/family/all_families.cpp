#include "model/family/all_families.h"

#include <algorithm>

#include "core/error.h"

namespace tributary::model {

const std::vector<Family>& all_families() {
  static const std::vector<Family> families{
      {.family = config::ModelFamily::kQwen2, .name = "qwen2", .make = make_text_model},
      {.family = config::ModelFamily::kQwen3, .name = "qwen3", .make = make_text_model},
      {.family = config::ModelFamily::kLlama, .name = "llama", .make = make_text_model},
      {.family = config::ModelFamily::kQwen2Vl,
       .name = "qwen2_vl",
       .make = make_qwen_vl,
       .prefixes = {{"model.visual.", "visual."}, {"model.language_model.", "model."}}},
      {.family = config::ModelFamily::kQwen2_5Vl,
       .name = "qwen2_5_vl",
       .make = make_qwen_vl,
       .prefixes = {{"model.visual.", "visual."}, {"model.language_model.", "model."}}},
      {.family = config::ModelFamily::kQwen3Vl, .name = "qwen3_vl", .make = make_qwen_vl},
      {.family = config::ModelFamily::kInternVl,
       .name = "internvl",
       .make = make_internvl,
       .prefixes = {{"model.vision_tower.", "vision_tower."},
                    {"model.multi_modal_projector.", "multi_modal_projector."},
                    {"model.language_model.", "language_model.model."},
                    {"lm_head.", "language_model.lm_head."}}},
      {.family = config::ModelFamily::kInternVlChat,
       .name = "internvl_chat",
       .make = make_internvl_chat},
      // transformers saves a fresh tower without vision_model.
      {.family = config::ModelFamily::kLlavaOneVision,
       .name = "llava_onevision",
       .make = make_llava_onevision,
       .prefixes = {{"model.vision_tower.vision_model.", "vision_tower.vision_model."},
                    {"model.vision_tower.", "vision_tower.vision_model."},
                    {"vision_tower.vision_model.", "vision_tower.vision_model."},
                    {"vision_tower.", "vision_tower.vision_model."},
                    {"model.multi_modal_projector.", "multi_modal_projector."},
                    {"model.image_newline", "image_newline"},
                    {"model.language_model.", "language_model.model."},
                    {"lm_head.", "language_model.lm_head."}}},
      {.family = config::ModelFamily::kQwen2Audio,
       .name = "qwen2_audio",
       .make = make_qwen2_audio,
       // A fresh model saved by transformers 5.17 has the doubled prefix.
       .prefixes = {{"language_model.model.model.", "language_model.model."},
                    {"model.audio_tower.", "audio_tower."},
                    {"model.multi_modal_projector.", "multi_modal_projector."},
                    {"model.language_model.", "language_model.model."},
                    {"lm_head.", "language_model.lm_head."}}},
      {.family = config::ModelFamily::kQwen2_5OmniThinker,
       .name = "qwen2_5_omni_thinker",
       .make = make_qwen2_5_omni_thinker,
       .prefixes = {{"thinker.", ""}}},
  };
  return families;
}

const Family& find_family(config::ModelFamily family) {
  const auto found = std::find_if(all_families().begin(), all_families().end(),
                                  [&](const Family& entry) { return entry.family == family; });
  TRIB_CHECK(found != all_families().end(), .what = "model: family without an entry in the list",
             .found = str("family ", static_cast<int>(family)));
  return *found;
}

std::string released_name(const Family& family, const std::string& name) {
  for (const auto& [prefix, released] : family.prefixes)
    if (name.starts_with(prefix)) return released + name.substr(prefix.size());
  return name;
}

std::string transformers_name(const Family& family, const std::string& name) {
  for (const auto& [prefix, released] : family.prefixes)
    if (name.starts_with(released)) return prefix + name.substr(released.size());
  return name;
}

std::unique_ptr<Model> make_model(const config::ModelConfig& config, const ModelLayout& layouts) {
  std::unique_ptr<Model> model = find_family(config.family).make(config, layouts);
  model->take_adapters();
  return model;
}

}  // namespace tributary::model
