#pragma once

#include <string>

#include "config/family/model_config.h"

namespace tributary::data {

/// Warns that a model directory has a chat template that may differ from ChatTemplate; empty when
/// it has none, or one that is known to be equal. `family` is what chats are written as.
///
/// Looks where transformers looks: chat_template.jinja, chat_template.json, tokenizer_config.json.
/// errors: Fault::kInput when one of these is no JSON; Fault::kResource when one cannot be read
[[nodiscard]] std::string describe_other_template(const std::string& model_directory,
                                                  config::ModelFamily family);

/// What data.system_prompt stands for: `given`, or where that is config::kFamilyPrompt what the
/// chat template of the model puts in front of a chat without a system turn. An unknown template
/// has the prompt of the family.
///
/// errors: as describe_other_template
[[nodiscard]] std::string system_prompt_of(const std::string& model_directory,
                                           config::ModelFamily family, const std::string& given);

}  // namespace tributary::data
