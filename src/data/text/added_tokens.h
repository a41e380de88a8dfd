#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "data/text/tokenizer_file.h"

namespace tributary::data {

/// Finds added tokens in a text, from left to right; the longest of those that begin at one place.
///
/// source: AddedVocabulary of the Hugging Face `tokenizers` library, whose order of rules is kept
class AddedTokens {
 public:
  /// A stretch of the text; `id` is -1 for one that holds no added token.
  struct Stretch {
    std::string_view text;
    std::int32_t id = -1;
  };

  explicit AddedTokens(std::vector<AddedToken> tokens);

  /// Cuts text into added tokens and the text between them; no stretch is empty.
  ///
  /// units: with `finds_special` off, tokens that are special count as ordinary text
  [[nodiscard]] std::vector<Stretch> cut(std::string_view text, bool finds_special) const;

 private:
  [[nodiscard]] const AddedToken* match(std::string_view text) const;

  std::vector<AddedToken> tokens_;          // ordered by first byte, then the longest first
  std::array<std::uint32_t, 257> first_{};  // byte -> index of its first token
};

}  // namespace tributary::data
