#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "config/family/model_config.h"
#include "config/family/object_form.h"
#include "config/reading/json_object.h"

namespace tributary::config {

/// One family of published models: how its config.json is read.
struct Family {
  ModelFamily family;
  std::string model_type;  // in config.json
  ModelConfig (*read)(const JsonObject& config);
  /// What its own chat template puts in front of a chat without a system turn.
  std::string system_prompt = {};
  /// Whether it writes "Audio 1: " in front of a sound and a newline behind it.
  bool numbers_sounds = false;
  ObjectForm objects = {};
  /// The model_type of a larger model that has this one as a part, and the part's name there: its
  /// section of config.json is `<part>_config`, and its tensors are `<part>.*`.
  std::string whole_type = {};
  std::string part = {};
  /// The token of a picture whose id config.json does not say: the tokenizer's files do.
  std::string image_word = {};
};

/// The visible list.
[[nodiscard]] const std::vector<Family>& all_families();

/// The value of data.system_prompt that stands for the family's own.
inline constexpr std::string_view kFamilyPrompt = "auto";
/// `given` as it is, or the prompt of the family where it is kFamilyPrompt.
[[nodiscard]] std::string system_prompt_of(ModelFamily family, const std::string& given);

/// The entry of a family. errors: Fault::kBug when the list lacks it
[[nodiscard]] const Family& entry_of(ModelFamily family);

/// As read_model_config, from the text of a config.json; `where` names it in messages.
[[nodiscard]] ModelConfig parse_model_config(std::string_view text, const std::string& where);

// One function a family, each in `<family>.cpp`.
[[nodiscard]] ModelConfig read_qwen2(const JsonObject& config);
[[nodiscard]] ModelConfig read_qwen3(const JsonObject& config);
[[nodiscard]] ModelConfig read_llama(const JsonObject& config);
[[nodiscard]] ModelConfig read_qwen2_vl(const JsonObject& config);
[[nodiscard]] ModelConfig read_qwen2_5_vl(const JsonObject& config);
[[nodiscard]] ModelConfig read_qwen3_vl(const JsonObject& config);
[[nodiscard]] ModelConfig read_internvl(const JsonObject& config);
[[nodiscard]] ModelConfig read_internvl_chat(const JsonObject& config);
[[nodiscard]] ModelConfig read_llava_onevision(const JsonObject& config);
[[nodiscard]] ModelConfig read_qwen2_audio(const JsonObject& config);
[[nodiscard]] ModelConfig read_qwen2_5_omni_thinker(const JsonObject& config);

}  // namespace tributary::config
