#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tributary::data {

/// The printable character, as UTF-8, that stands for one byte in vocabulary files.
///
/// source: Radford 2019, "Language models are unsupervised multitask learners" (GPT-2): printable
///         Latin-1 bytes stand for themselves, the other 68 take U+0100 to U+0143 in order
[[nodiscard]] std::string_view letter_of_byte(std::uint8_t byte);

/// Writes bytes in that alphabet.
[[nodiscard]] std::string spell_bytes(std::string_view bytes);

/// Reads a token of a vocabulary file back into bytes; a token with a character from outside the
/// alphabet stands for its own UTF-8.
[[nodiscard]] std::string read_spelled(std::string_view token);

}  // namespace tributary::data
