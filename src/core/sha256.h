#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

namespace tributary {

/// SHA-256. For names of configurations, shapes and tables, not for bulk data.
///
/// source: FIPS 180-4
[[nodiscard]] std::array<std::byte, 32> sha256_digest(std::string_view text);

/// SHA-256 as 64 hexadecimal digits.
[[nodiscard]] std::string sha256(std::string_view text);

}  // namespace tributary
