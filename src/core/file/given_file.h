#pragma once

#include <cstdint>
#include <source_location>
#include <string>

#include "core/error.h"

namespace tributary {

/// For files whose size nobody limits.
inline constexpr std::uint64_t kAnySize = std::uint64_t{1} << 62;

/// Reads a file that a person named; a pipe will do. Of a larger file no more than `most_bytes` + 1
/// bytes come back, so that whoever knows the limit can refuse it.
///
/// errors: Fault::kInput with `parts`, of which where, found and, where it is empty, fix are filled
///         in: there is no such file, it is a directory, or it cannot be read
[[nodiscard]] std::string read_given_file(
    const std::string& path, std::uint64_t most_bytes, ErrorParts parts,
    std::source_location raised_at = std::source_location::current());

}  // namespace tributary
