#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/file/file_system.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/manifest.h"

namespace tributary::train {

/// A box of a tensor that a caller wants, and where it goes.
struct ReadRequest {
  std::string tensor;  // `model/<name>`, `optim/<name>`, `extra/<name>`
  Box box;
  std::span<std::byte> target;  // row-major, of the box
};

/// An open checkpoint: the manifest is checked, every file is there with its exact size.
///
/// Reads by pread in blocks of kChecksumBlock; each block that is touched is held against its
/// checksum before a byte of it is used, whatever mesh wrote it.
/// errors: Fault::kInput with ExitCode::kCheckpointRefused naming file, tensor and block, and the
///         previous checkpoint where there is one
class CheckpointReader {
 public:
  explicit CheckpointReader(std::string directory, Verify verify = Verify::kTouched,
                            FileSystem& files = real_file_system());

  [[nodiscard]] const std::string& directory() const { return directory_; }
  [[nodiscard]] const Manifest& manifest() const { return manifest_; }

  /// errors: also Fault::kBug for a box outside its tensor or a target of another size
  void read(std::span<const ReadRequest> requests);
  /// Content of a file without tensors.
  [[nodiscard]] std::string read_extra(const std::string& name);
  /// Reads every block of every file against its checksum.
  void verify_all();
  /// Bytes read from files so far.
  [[nodiscard]] std::uint64_t bytes_read() const { return bytes_read_; }

 private:
  struct CopyRun {
    std::uint64_t begin = 0;  // in the file
    std::uint64_t bytes = 0;
    std::byte* target = nullptr;
  };
  void open_all();
  void refuse_strangers() const;
  void require_plain_file(const std::string& path) const;
  void copy_runs(std::size_t file, std::vector<CopyRun> runs);
  void read_block(std::size_t file, std::uint64_t block, std::vector<std::byte>& bytes);
  [[nodiscard]] std::string name_tensors(std::size_t file, std::uint64_t block) const;
  [[nodiscard]] std::string name_previous() const;

  std::string directory_;
  Verify verify_;
  FileSystem& files_;
  Manifest manifest_;
  std::vector<InputFile> open_;  // as in manifest_.files
  std::uint64_t bytes_read_ = 0;
};

}  // namespace tributary::train
