#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tributary::data {

/// What a file or directory is that holds no JSON lines, and the command that makes some of it.
struct OtherFile {
  std::string what;  // `Parquet`
  std::string fix;
};

/// Knows a file by its first bytes; 512 are enough. Nothing: it may be JSON lines.
[[nodiscard]] std::optional<OtherFile> recognise_file(const std::string& path,
                                                      std::string_view beginning);

/// Knows a directory by the files in it.
[[nodiscard]] OtherFile recognise_directory(const std::string& path);

}  // namespace tributary::data
