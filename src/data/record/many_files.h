#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/record/record_file.h"

namespace tributary::data {

/// Containers one after the other, as if they were one.
class ManyFiles final : public RecordFile {
 public:
  /// `path` is what names them all: a directory or a pattern.
  ManyFiles(std::string path, std::vector<std::unique_ptr<RecordFile>> files);

  [[nodiscard]] std::int64_t records() const override { return begins_.back(); }
  [[nodiscard]] Result<StoredRecord> read(std::int64_t record) const override;
  [[nodiscard]] std::string key(std::int64_t record) const override;
  [[nodiscard]] std::int64_t offset(std::int64_t record) const override;
  [[nodiscard]] std::string beginning_of(std::int64_t record) const override;
  [[nodiscard]] const std::string& path() const override { return path_; }
  [[nodiscard]] std::int64_t bytes() const override;
  [[nodiscard]] std::int64_t blank_lines() const override;
  [[nodiscard]] const std::string& digest() const override { return digest_; }

 private:
  struct Place {
    const RecordFile& file;
    std::int64_t record;
  };
  [[nodiscard]] Place at(std::int64_t record) const;

  std::string path_;
  std::vector<std::unique_ptr<RecordFile>> files_;
  std::vector<std::int64_t> begins_{0};  // [files + 1] the first record of each
  std::string digest_;                   // of those of the files
};

/// Whether a path is a pattern of several: `data/*.jsonl`, `shard-{000..099}.tar`.
[[nodiscard]] bool is_pattern(const std::string& path);
/// The paths of a pattern, in the order of their names.
///
/// errors: Fault::kInput when there is none, or a range is not written as {000..099}
[[nodiscard]] std::vector<std::string> list_paths(const std::string& pattern);

}  // namespace tributary::data
