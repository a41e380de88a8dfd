#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/result.h"
#include "data/record/media_folder.h"

namespace tributary::data {

/// A JSON Lines file with an index of its lines; records are read on demand.
///
/// Blank lines are no records; CR LF, a byte order mark and a last line without newline are
/// accepted. Safe to use from any thread.
class JsonlFile {
 public:
  /// errors: Fault::kInput when the file is missing, no regular file, holds no record, or holds one
  ///         JSON list in place of lines; Fault::kResource when reading fails
  /// cost:   one pass over the file, 16 bytes a record
  explicit JsonlFile(std::string path);

  [[nodiscard]] std::int64_t records() const { return static_cast<std::int64_t>(lines_.size()); }
  /// Reads the text of a record, without its end of line.
  ///
  /// errors: Refusal `line_too_long`, `read_failed`; `file_changed` when size or time of the file
  ///         are no longer those of the index
  [[nodiscard]] Result<std::string> read(std::int64_t record) const;
  /// `train.jsonl:12`: the file as it was named, and the line, counted from 1.
  [[nodiscard]] std::string key(std::int64_t record) const;
  [[nodiscard]] std::int64_t offset(std::int64_t record) const { return lines_[record].offset; }

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::int64_t bytes() const { return bytes_; }
  [[nodiscard]] std::int64_t blank_lines() const { return blank_lines_; }
  /// XXH3 of the content, 16 hexadecimal digits.
  [[nodiscard]] const std::string& digest() const { return digest_; }

 private:
  struct Line {
    std::int64_t offset;
    std::uint32_t length;  // the largest value stands for itself and above
    std::uint32_t number;  // from 1
  };
  void index_lines();
  void add_line(std::int64_t offset, std::int64_t length, std::int64_t number, bool is_blank);

  std::string path_;
  Descriptor file_;
  std::int64_t bytes_ = 0;
  std::int64_t changed_ns_ = 0;  // modification time
  std::int64_t blank_lines_ = 0;
  std::string digest_;
  std::vector<Line> lines_;
};

}  // namespace tributary::data
