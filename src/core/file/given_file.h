#pragma once

#include <cstdint>
#include <source_location>
#include <string>
#include <string_view>

#include "core/error.h"
#include "core/json.h"

namespace tributary {

/// For files whose size nobody limits.
inline constexpr std::uint64_t kAnySize = std::uint64_t{1} << 62;

/// Reads a file, or a pipe, that a person named. A file larger than `max_bytes` comes back cut to
/// `max_bytes` + 1 bytes, so that the caller can refuse it.
///
/// errors: Fault::kInput when there is no such file, it is a directory, or it cannot be read. Uses
///         `parts`, and fills in where, found and, if it is empty, fix
[[nodiscard]] std::string read_given_file(
    const std::string& path, std::uint64_t max_bytes, ErrorParts parts,
    std::source_location raised_at = std::source_location::current());

/// Reads a JSON file that a person named.
///
/// errors: those of read_given_file with `parts`, and of parse_json
[[nodiscard]] Json read_given_json(
    const std::string& path, ErrorParts parts, JsonLimits limits = {},
    std::source_location raised_at = std::source_location::current());

/// Writes a file that a person named: a reader sees the old or the new content. A device, a pipe
/// and a link stay what they are; the text is written into them.
///
/// errors: Fault::kResource with `parts`, after where, found and fix were filled in; nothing is
///         left behind
void write_given_file(const std::string& path, std::string_view text, ErrorParts parts,
                      std::source_location raised_at = std::source_location::current());

/// Raises the error that write_given_file would, before long work is done in vain. Writes nothing.
void check_given_output(const std::string& path, ErrorParts parts,
                        std::source_location raised_at = std::source_location::current());

/// A path for a message; a relative path is followed by the directory that it starts from.
[[nodiscard]] std::string shown_path(const std::string& path);

}  // namespace tributary
