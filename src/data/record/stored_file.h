#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "core/handle.h"
#include "core/result.h"

namespace tributary::data {

/// A regular file as it lies on the disk, open for reading at any place and from any thread.
class StoredFile {
 public:
  /// errors: Fault::kInput when the file is missing, cannot be read or is no regular file
  explicit StoredFile(std::string path);

  /// Reads up to `count` bytes at `offset`; fewer at the end of the file, below 0 on failure.
  [[nodiscard]] std::int64_t read_at(char* to, std::size_t count, std::int64_t offset) const;
  /// As read_at, for a pass over the file before the run.
  ///
  /// errors: Fault::kResource when reading fails
  [[nodiscard]] std::size_t read_block(char* to, std::size_t count, std::int64_t offset) const;
  /// Refusal `file_changed` when size or time are no longer those at the beginning.
  [[nodiscard]] std::optional<Refusal> refuse_change() const;

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::int64_t bytes() const { return bytes_; }

 private:
  std::string path_;
  Descriptor file_;
  std::int64_t bytes_ = 0;
  std::int64_t changed_ns_ = 0;  // modification time
};

/// Formats an XXH3 sum as 16 hexadecimal digits.
[[nodiscard]] std::string digits_of(std::uint64_t hash);
/// XXH3 of the whole content, in that form.
///
/// errors: Fault::kResource when reading fails
[[nodiscard]] std::string digest_of(const StoredFile& file);

}  // namespace tributary::data
