#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tributary::data {

/// Brings text into Unicode's composed form (NFC); nothing when it is in that form already.
///
/// units:  `text` is valid UTF-8
/// source: Unicode Standard Annex 15, by utf8proc
[[nodiscard]] std::optional<std::string> compose(std::string_view text);

}  // namespace tributary::data
