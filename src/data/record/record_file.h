#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "core/result.h"

namespace tributary::data {

struct StoredRecord;

/// A container of records: a file or a directory. What a record says is for read_record to find
/// out. Safe to use from any thread.
class RecordFile {
 public:
  virtual ~RecordFile() = default;

  [[nodiscard]] virtual std::int64_t records() const = 0;
  /// Reads a record.
  ///
  /// units:  record in [0, records())
  /// errors: Refusal `line_too_long`, `bad_json`, `bad_utf8`, `read_failed`, `file_changed`
  [[nodiscard]] virtual Result<StoredRecord> read(std::int64_t record) const = 0;
  /// Where the record is, for a person: `train.jsonl:12`.
  [[nodiscard]] virtual std::string key(std::int64_t record) const = 0;
  /// The place of the record in the file, in bytes; its number where that has no meaning.
  [[nodiscard]] virtual std::int64_t offset(std::int64_t record) const = 0;
  /// What a damaged record begins with, at most 4 KiB; empty when it cannot be read.
  [[nodiscard]] virtual std::string beginning_of(std::int64_t record) const = 0;

  [[nodiscard]] virtual const std::string& path() const = 0;
  [[nodiscard]] virtual std::int64_t bytes() const = 0;  // as stored
  [[nodiscard]] virtual std::int64_t blank_lines() const { return 0; }
  /// XXH3 of the stored content, 16 hexadecimal digits.
  [[nodiscard]] virtual const std::string& digest() const = 0;
};

inline constexpr std::size_t kMaxBeginningBytes = 4096;  // of RecordFile::beginning_of

/// Opens a container; its content decides which it is. docs/formats/data.md lists them.
///
/// errors: Fault::kInput when the path is missing or no known container, or holds no record;
///         Fault::kResource when reading fails
/// cost:   one pass over each file, 16 bytes a record
[[nodiscard]] std::unique_ptr<RecordFile> open_record_file(const std::string& path);

}  // namespace tributary::data
