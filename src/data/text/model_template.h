#pragma once

#include <string>

namespace tributary::data {

/// Warns that a model directory has a chat template that may differ from ChatTemplate; empty when
/// it has none, or one that is known to be equal.
///
/// Looks where transformers looks: chat_template.jinja, chat_template.json, tokenizer_config.json.
/// errors: Fault::kInput when one of these is no JSON; Fault::kResource when one cannot be read
[[nodiscard]] std::string describe_other_template(const std::string& model_directory);

}  // namespace tributary::data
