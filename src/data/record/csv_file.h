#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/record/byte_file.h"
#include "data/record/record_file.h"

namespace tributary::data {

/// A table of comma-separated values (RFC 4180) with the names of its columns in the first row;
/// each further row is a record of texts. An empty cell is no value.
class CsvFile final : public RecordFile {
 public:
  /// errors: Fault::kInput when there is no row, or a quote is not closed
  explicit CsvFile(std::unique_ptr<ByteFile> file);

  [[nodiscard]] std::int64_t records() const override { return std::ssize(rows_); }
  [[nodiscard]] Result<StoredRecord> read(std::int64_t record) const override;
  /// `metadata.csv:12` with the line from 1.
  [[nodiscard]] std::string key(std::int64_t record) const override;
  [[nodiscard]] std::int64_t offset(std::int64_t record) const override;
  [[nodiscard]] std::string beginning_of(std::int64_t record) const override;
  [[nodiscard]] const std::string& path() const override { return file_->path(); }
  [[nodiscard]] std::int64_t bytes() const override { return file_->stored_bytes(); }
  [[nodiscard]] const std::string& digest() const override { return file_->digest(); }

 private:
  struct Row {
    std::int64_t offset;
    std::int64_t length;
    std::int64_t line;  // from 1
  };
  [[nodiscard]] Result<std::string> text(const Row& row) const;

  std::unique_ptr<ByteFile> file_;
  std::vector<std::string> columns_;
  std::vector<Row> rows_;
};

}  // namespace tributary::data
