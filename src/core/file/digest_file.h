#pragma once

#include <cstdint>
#include <string>

namespace tributary {

/// SHA-256 of a file as 64 hexadecimal digits; `none` where there is no such file.
///
/// errors: as read_text_file
[[nodiscard]] std::string digest_file(const std::string& path, std::uint64_t max_bytes);

}  // namespace tributary
