#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/json.h"

namespace tributary::data {

/// A token that is searched in the text before anything else.
struct AddedToken {
  std::int32_t id = 0;
  std::string content;
  bool single_word = false;  // matches only between characters that are not in a word
  bool strip_left = false;   // takes the white space before it along
  bool strip_right = false;  // and the white space after it
  bool normalized = false;   // searched in the normalised text
  bool special = false;      // for control, not for content
};

/// How text is cut before merging: each match is a piece, and so is the text between matches.
struct SplitRule {
  std::string pattern;
  bool is_literal = false;
};

/// Two neighbours that become one token; earlier rules apply first.
struct MergeRule {
  std::int32_t left = 0;
  std::int32_t right = 0;
  std::int32_t joined = 0;
};

/// The checked content of a `tokenizer.json`.
struct TokenizerFile {
  std::vector<std::string> tokens;  // by id: the model's, then the added ones
  std::vector<bool> in_model;       // by id
  std::vector<AddedToken> added;
  std::vector<MergeRule> merges;
  std::vector<SplitRule> splits;  // applied in turn
  bool composes = false;          // text is brought into NFC first
  bool ignores_merges = false;    // a piece that is a token needs no merging
};

inline constexpr std::size_t kMaxTokenizerBytes = std::size_t{64} << 20;

/// Reads the byte-level BPE part of the format: added tokens, NFC, splits, ByteLevel, BPE.
///
/// errors: Fault::kInput naming `where`, the key, what was found and what is supported; also when
///         ids have gaps, a merge names an unknown token, or a byte has no token
/// source: the file format of the Hugging Face `tokenizers` library, version "1.0"
[[nodiscard]] TokenizerFile parse_tokenizer_file(std::string_view json, std::string_view where);
/// The same of JSON that was parsed.
[[nodiscard]] TokenizerFile check_tokenizer(const Json& json, std::string_view where);

}  // namespace tributary::data
