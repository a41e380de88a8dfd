#pragma once

#include <cstdint>
#include <source_location>
#include <string>
#include <string_view>

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

/// Writes a file that a person named: a reader sees the old or the new content. A device, a pipe
/// and a link stay what they are; the text is written into them.
///
/// errors: Fault::kResource with `parts`, of which where, found and fix are filled in; nothing is
///         left behind
void write_given_file(const std::string& path, std::string_view text, ErrorParts parts,
                      std::source_location raised_at = std::source_location::current());

/// Raises what write_given_file would, for those who work long before they write. Changes nothing.
void check_given_output(const std::string& path, ErrorParts parts,
                        std::source_location raised_at = std::source_location::current());

}  // namespace tributary
