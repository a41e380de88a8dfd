#pragma once

#include <string>
#include <string_view>

namespace tributary {

/// SHA-256 as 64 hexadecimal digits. For names of configurations and shapes, not for bulk data.
///
/// source: FIPS 180-4
[[nodiscard]] std::string sha256(std::string_view text);

}  // namespace tributary
