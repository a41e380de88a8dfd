#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tributary::data {

/// What a file is that begins so; 512 bytes are enough.
[[nodiscard]] bool is_tar(std::string_view beginning);
[[nodiscard]] bool is_parquet(std::string_view beginning);
/// An Arrow file, or a stream as `datasets` writes it.
[[nodiscard]] bool is_arrow(std::string_view beginning);

/// The kind of a file that is not read, and the command that converts it.
struct OtherFile {
  std::string what;  // `a zip archive`
  std::string fix;
};

/// Recognises a file by its first bytes; null when it may hold JSON.
[[nodiscard]] std::optional<OtherFile> recognise_file(const std::string& path,
                                                      std::string_view beginning);

}  // namespace tributary::data
