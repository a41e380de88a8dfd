#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tributary::config {

/// The files in DIRECTORY that are its tokenizer, by name: `tokenizer.json`, or the older
/// `vocab.json`, `merges.txt` and `tokenizer_config.json`; empty when neither are there.
[[nodiscard]] std::vector<std::string> tokenizer_files(const std::string& directory);

/// The id of a token that was added to the vocabulary of the tokenizer in DIRECTORY; null when
/// neither tokenizer_config.json nor tokenizer.json adds it.
///
/// errors: Fault::kInput when one of them cannot be read or is no JSON
[[nodiscard]] std::optional<std::int64_t> find_added_token(const std::string& directory,
                                                           std::string_view token);

}  // namespace tributary::config
