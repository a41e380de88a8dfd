#include "config/family/all_families.h"

#include <algorithm>

#include "core/error.h"

namespace tributary::config {

namespace {

const std::string kHelpful = "You are a helpful assistant.";
// The template internvl2_5 in the authors' conversation.py has it.
const std::string kInternVlPrompt =
    "你是书生·万象，英文名是InternVL，是由上海人工智能实验室、清华大学及多家合作单位联合开发的"
    "多模态大语言模型。";

}  // namespace

const std::vector<Family>& all_families() {
  static const std::vector<Family> families{
      {ModelFamily::kQwen2, "qwen2", read_qwen2, kHelpful},
      {ModelFamily::kQwen3, "qwen3", read_qwen3},
      {ModelFamily::kLlama, "llama", read_llama},
      {ModelFamily::kQwen2Vl, "qwen2_vl", read_qwen2_vl, kHelpful, false, kQwen2VlObjects},
      {ModelFamily::kQwen2_5Vl, "qwen2_5_vl", read_qwen2_5_vl, kHelpful, false, kPixelLists},
      {ModelFamily::kQwen3Vl, "qwen3_vl", read_qwen3_vl, "", false, kGridLists},
      {ModelFamily::kInternVl, "internvl", read_internvl, "", false, kInternVlObjects},
      {ModelFamily::kInternVlChat, "internvl_chat", read_internvl_chat, kInternVlPrompt, false,
       kInternVlObjects, "", "", "<IMG_CONTEXT>"},
      {ModelFamily::kLlavaOneVision, "llava_onevision", read_llava_onevision},
      {ModelFamily::kQwen2Audio, "qwen2_audio", read_qwen2_audio, kHelpful, true},
      {ModelFamily::kQwen2_5OmniThinker, "qwen2_5_omni_thinker", read_qwen2_5_omni_thinker,
       kHelpful, false, kPixelLists, "qwen2_5_omni", "thinker"},
  };
  return families;
}

const Family& entry_of(ModelFamily family) {
  const auto found = std::ranges::find(all_families(), family, &Family::family);
  TRIB_CHECK(found != all_families().end(), .what = "config: family without an entry in the list",
             .found = str("family ", static_cast<int>(family)));
  return *found;
}

std::string system_prompt_of(ModelFamily family, const std::string& given) {
  return given == kFamilyPrompt ? entry_of(family).system_prompt : given;
}

}  // namespace tributary::config
