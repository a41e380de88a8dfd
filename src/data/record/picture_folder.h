#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data/record/record_file.h"

namespace tributary::data {

/// Whether a file of this name should be a picture; its content decides of what format.
[[nodiscard]] bool is_picture_name(std::string_view path);

/// A directory with one directory of pictures for each class, which bears its name: each picture is
/// a record `{"image": "cat/1.png", "label": "cat"}`, in the order of the paths.
class ClassFolder final : public RecordFile {
 public:
  /// errors: Fault::kInput when a picture lies in no class, or directories of classes lie deeper
  explicit ClassFolder(std::string path);

  [[nodiscard]] std::int64_t records() const override { return std::ssize(pictures_); }
  [[nodiscard]] Result<StoredRecord> read(std::int64_t record) const override;
  [[nodiscard]] std::string key(std::int64_t record) const override;
  [[nodiscard]] std::int64_t offset(std::int64_t record) const override { return record; }
  [[nodiscard]] std::string beginning_of(std::int64_t record) const override;
  [[nodiscard]] const std::string& path() const override { return path_; }
  [[nodiscard]] std::int64_t bytes() const override { return bytes_; }
  /// Of the names and sizes of the pictures, not of their content.
  [[nodiscard]] const std::string& digest() const override { return digest_; }

 private:
  std::string path_;
  std::vector<std::string> pictures_;  // paths below path_
  std::int64_t bytes_ = 0;
  std::string digest_;
};

/// Opens a directory as the imagefolder of the package `datasets`: by its `metadata.jsonl` or
/// `metadata.csv`, or as a ClassFolder. Null when it holds neither.
[[nodiscard]] std::unique_ptr<RecordFile> open_picture_folder(const std::string& path);

}  // namespace tributary::data
