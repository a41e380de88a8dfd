#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "core/result.h"

namespace tributary::data {

/// The bytes of a file of records at any place, decompressed where the file is compressed.
class ByteFile {
 public:
  using Use = std::function<void(std::string_view block)>;

  virtual ~ByteFile() = default;

  /// The first bytes, at most `max`.
  [[nodiscard]] virtual std::string beginning(std::size_t max) const = 0;
  /// Passes over all bytes once, in blocks, from the first one on. To be called once, before read.
  ///
  /// errors: Fault::kResource when reading fails, Fault::kInput when the compression is damaged
  virtual void scan(const Use& use) = 0;
  /// Reads exactly `length` bytes. Safe to call from any thread.
  ///
  /// errors: Refusal `read_failed`; `file_changed` when size or time of the file are no longer
  /// those
  ///         that it had when it was opened
  [[nodiscard]] virtual Result<std::string> read(std::int64_t offset, std::size_t length) const = 0;

  [[nodiscard]] virtual const std::string& path() const = 0;
  /// As stored, not decompressed.
  [[nodiscard]] virtual std::int64_t stored_bytes() const = 0;
  /// XXH3 of the stored content, 16 hexadecimal digits; known after scan.
  [[nodiscard]] virtual const std::string& digest() const = 0;
};

/// Opens a file, plain or compressed by gzip: its first bytes decide, never its name.
///
/// errors: Fault::kInput when the file is missing or no regular file
/// cost:   of a gzip file, scan keeps 32 KiB for each stretch of 1 MiB or more, at most 128 MiB;
///         reading decompresses from the beginning of such a stretch
[[nodiscard]] std::unique_ptr<ByteFile> open_bytes(const std::string& path);

}  // namespace tributary::data
