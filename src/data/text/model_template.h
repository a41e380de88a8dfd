#pragma once

#include <string>

namespace tributary::data {

/// Says that a model directory brings a chat template of its own that is not known to write what
/// ChatTemplate writes; empty when it brings none, or one that is known to.
///
/// Looks where transformers looks: chat_template.jinja, chat_template.json, tokenizer_config.json.
/// errors: Fault::kInput when a file of these is no JSON; Fault::kResource when it cannot be read
[[nodiscard]] std::string describe_other_template(const std::string& model_directory);

}  // namespace tributary::data
