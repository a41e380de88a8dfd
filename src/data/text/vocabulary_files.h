#pragma once

#include <string>

#include "data/text/tokenizer_file.h"

namespace tributary::data {

/// The tokenizer of a model directory: its tokenizer.json or, without one, what the class
/// Qwen2Tokenizer of transformers makes of vocab.json, merges.txt and tokenizer_config.json.
///
/// errors: Fault::kInput when it has neither, when the class is another one, and those of
///         parse_tokenizer_file
/// source: transformers 5.17, models/qwen2/tokenization_qwen2.py
[[nodiscard]] TokenizerFile read_tokenizer_of(const std::string& directory);

}  // namespace tributary::data
