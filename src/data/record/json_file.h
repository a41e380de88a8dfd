#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/record/byte_file.h"
#include "data/record/record_file.h"

namespace tributary::data {

/// A file of JSON objects, one a line or in one JSON list, or of raw text with a document a line.
/// It has an index of its records, which are read on demand.
///
/// A file whose first character is `[` is a list. Blank lines are no records; CR LF, a byte order
/// mark and a last line without newline are accepted.
class JsonFile final : public RecordFile {
 public:
  /// The lines of kText become `{"text": ...}`.
  enum class Content { kJson, kText };

  /// errors: Fault::kInput when the file holds no record, or a list that is not closed
  explicit JsonFile(std::unique_ptr<ByteFile> file, Content content = Content::kJson);

  [[nodiscard]] std::int64_t records() const override {
    return static_cast<std::int64_t>(lines_.size());
  }
  [[nodiscard]] Result<StoredRecord> read(std::int64_t record) const override;
  /// Reads the text of a record, without its end of line.
  ///
  /// errors: Refusal `line_too_long`, `read_failed`, `file_changed`
  [[nodiscard]] Result<std::string> text(std::int64_t record) const;
  /// `train.jsonl:12` with the line from 1, or `llava.json[11]` with the place in the list from 0.
  [[nodiscard]] std::string key(std::int64_t record) const override;
  [[nodiscard]] std::int64_t offset(std::int64_t record) const override {
    return lines_[static_cast<std::size_t>(record)].offset;
  }
  [[nodiscard]] std::string beginning_of(std::int64_t record) const override;

  [[nodiscard]] const std::string& path() const override { return file_->path(); }
  [[nodiscard]] std::int64_t bytes() const override { return file_->stored_bytes(); }
  [[nodiscard]] std::int64_t blank_lines() const override { return blank_lines_; }
  [[nodiscard]] const std::string& digest() const override { return file_->digest(); }

 private:
  struct Line {
    std::int64_t offset;
    std::uint32_t length;  // the largest value stands for itself and above
    std::uint32_t number;  // of a line from 1, in a list from 0
  };
  class LineIndex;
  class ListIndex;
  void index_records();
  void add_line(std::int64_t offset, std::int64_t length, std::int64_t number);

  std::unique_ptr<ByteFile> file_;
  Content content_;
  bool is_list_ = false;
  std::int64_t blank_lines_ = 0;
  std::vector<Line> lines_;
};

}  // namespace tributary::data
