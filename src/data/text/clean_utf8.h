#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tributary::data {

/// Replaces bytes that are not UTF-8 by U+FFFD, one for each maximal part of a broken character.
///
/// source: The Unicode Standard 15, section 3.9, "U+FFFD Substitution of Maximal Subparts"
[[nodiscard]] std::string clean_utf8(std::string_view bytes);

/// Tells whether clean_utf8() would change nothing.
[[nodiscard]] bool is_utf8(std::string_view bytes);

/// How many bytes at the end are the beginning of a character that more bytes may complete.
[[nodiscard]] std::size_t unfinished_utf8(std::string_view bytes);

/// Brings text into Unicode's composed form (NFC); nothing when it is in that form already.
///
/// units:  `text` is valid UTF-8
/// source: Unicode Standard Annex 15, by utf8proc
[[nodiscard]] std::optional<std::string> compose(std::string_view text);

}  // namespace tributary::data
