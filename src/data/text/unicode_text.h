#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tributary::data {

// Texts as Python sees them: published scores of answers are defined by its functions on strings.

/// The characters of a text; bytes that are not UTF-8 are replaced as by clean_utf8().
[[nodiscard]] std::u32string to_characters(std::string_view text);

/// As `str.lower`: the full mapping of Unicode, and the sigma that ends a word is its own letter.
[[nodiscard]] std::u32string lower_case(std::u32string_view text);

/// How many characters `str.upper` has: two for a sharp s or a ligature.
[[nodiscard]] std::size_t uppercase_length(std::u32string_view text);

/// As `str.split()`: the pieces between runs of white space, none of them empty.
[[nodiscard]] std::vector<std::u32string> split_at_spaces(std::u32string_view text);

/// As `str.isspace` of one character.
[[nodiscard]] bool is_white_space(char32_t character);

/// As `str.isalnum` of one character: letters, digits and other numbers, but no marks.
[[nodiscard]] bool is_alphanumeric(char32_t character);

/// As `\d` of a regular expression: a decimal digit of any script.
[[nodiscard]] bool is_decimal(char32_t character);

}  // namespace tributary::data
