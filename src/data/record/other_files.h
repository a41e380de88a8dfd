#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tributary::data {

/// The kind of a file or directory that holds no JSON lines, and the command that converts it.
struct OtherFile {
  std::string what;  // `Parquet`
  std::string fix;
};

/// Recognises a file by its first 512 bytes; null when it may hold JSON lines.
[[nodiscard]] std::optional<OtherFile> recognise_file(const std::string& path,
                                                      std::string_view beginning);

/// Recognises a directory by the files in it.
[[nodiscard]] OtherFile recognise_directory(const std::string& path);

}  // namespace tributary::data
