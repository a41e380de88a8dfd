#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"

namespace tributary::data {

/// Whether a text is a `data:` URL rather than a path.
[[nodiscard]] bool is_data_url(std::string_view text);

/// Decodes the bytes of `data:image/...;base64,...` or `data:audio/...`.
///
/// errors: Refusal `bad_data_url`: neither an image nor a sound, not base64, a character outside
/// the alphabet source: RFC 2397; RFC 4648 section 4, padding required
[[nodiscard]] Result<std::vector<std::uint8_t>> decode_data_url(std::string_view url);

/// Writes bytes as base64 with padding.
[[nodiscard]] std::string encode_base64(std::string_view bytes);
/// Reads base64 with padding; null for any other text.
[[nodiscard]] std::optional<std::vector<std::uint8_t>> decode_base64(std::string_view text);

}  // namespace tributary::data
