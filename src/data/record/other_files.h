#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tributary::data {

/// The kind of a file or directory that is not read, and the command that converts it.
struct OtherFile {
  std::string what;  // `Parquet`
  std::string fix;
};

/// Whether a file that begins so is a tar archive.
[[nodiscard]] bool is_tar(std::string_view beginning);
/// Recognises a file by its first 512 bytes; null when it may hold JSON.
[[nodiscard]] std::optional<OtherFile> recognise_file(const std::string& path,
                                                      std::string_view beginning);

/// Recognises a directory by the files in it; null when it may hold pictures or shards.
[[nodiscard]] std::optional<OtherFile> recognise_directory(const std::string& path);

}  // namespace tributary::data
