#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/record/byte_file.h"
#include "data/record/record_file.h"

namespace tributary::data {

/// A member of a tar archive.
struct TarMember {
  std::string name;
  std::string extension;  // behind the first dot of the file's name, in small letters
  std::int64_t offset = 0;
  std::int64_t bytes = 0;
};

/// A tar shard of WebDataset: neighbouring members with one name up to the first dot are a sample.
///
/// `.json` is the record, `.txt` its `text`, `.cls` its `label`; pictures become `images`, in their
/// order, unless the record names some itself. Any other member is a key that nothing reads.
class TarFile final : public RecordFile {
 public:
  /// errors: Fault::kInput when the archive is damaged or holds no sample
  /// cost:   one pass over the headers, some 100 bytes a member
  explicit TarFile(std::unique_ptr<ByteFile> file);

  [[nodiscard]] std::int64_t records() const override { return std::ssize(samples_); }
  [[nodiscard]] Result<StoredRecord> read(std::int64_t record) const override;
  /// `shard-000.tar/dir/0001`
  [[nodiscard]] std::string key(std::int64_t record) const override;
  [[nodiscard]] std::int64_t offset(std::int64_t record) const override;
  [[nodiscard]] std::string beginning_of(std::int64_t record) const override;
  [[nodiscard]] const std::string& path() const override { return file_->path(); }
  [[nodiscard]] std::int64_t bytes() const override { return file_->stored_bytes(); }
  [[nodiscard]] const std::string& digest() const override { return file_->digest(); }

 private:
  /// The members of one sample: first to last + 1 of members_.
  struct Sample {
    std::size_t begin;
    std::size_t end;
  };
  void index_members();
  [[nodiscard]] Result<std::string> text_of(const TarMember& member) const;

  std::shared_ptr<ByteFile> file_;  // shared with the pictures of records
  std::vector<TarMember> members_;
  std::vector<Sample> samples_;
};

}  // namespace tributary::data
