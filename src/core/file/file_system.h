#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tributary {

enum class OpenFor { kRead, kCreate, kDirectory };
enum class FileKind { kFile, kDirectory, kLink, kOther };

struct FileFacts {
  FileKind kind = FileKind::kOther;  // of the name itself; links are not followed
  std::uint64_t bytes = 0;
};

/// The system calls by which checkpoints are written and read, so that tests can stand between.
///
/// errors: every call returns what the system call gives, or minus errno; nothing is retried here
class FileSystem {
 public:
  virtual ~FileSystem() = default;

  /// kCreate makes an empty file, or empties one. Returns a descriptor.
  virtual std::int64_t open(const std::string& path, OpenFor purpose) = 0;
  /// Appends to a file opened with kCreate; may write less.
  virtual std::int64_t write(std::int64_t file, std::span<const std::byte> bytes) = 0;
  /// May read less; 0 at the end of the file.
  virtual std::int64_t pread(std::int64_t file, std::span<std::byte> bytes,
                             std::uint64_t offset) = 0;
  /// Bytes of an open regular file; -EINVAL when it is something else.
  virtual std::int64_t size(std::int64_t file) = 0;
  virtual std::int64_t fsync(std::int64_t file) = 0;
  virtual void close(std::int64_t file) = 0;

  virtual std::int64_t rename(const std::string& from, const std::string& to) = 0;
  virtual std::int64_t unlink(const std::string& path) = 0;
  virtual std::int64_t make_directory(const std::string& path) = 0;
  virtual std::int64_t remove_directory(const std::string& path) = 0;
  virtual std::int64_t list(const std::string& path, std::vector<std::string>& names) = 0;
  virtual std::int64_t stat(const std::string& path, FileFacts& facts) = 0;
  virtual std::int64_t free_bytes(const std::string& path, std::uint64_t& bytes) = 0;
};

/// The file system of the operating system.
[[nodiscard]] FileSystem& real_file_system();

/// A file being written, from the start. Interrupted and short writes are taken up again.
///
/// errors: Fault::kResource with the path, the call and the system's word for the error
class OutputFile {
 public:
  OutputFile(FileSystem& files, std::string path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void append(std::span<const std::byte> bytes);
  void append(std::string_view text);
  /// Makes the content durable. After a failure the file is never synced again: its pages are lost.
  void sync();
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  FileSystem& files_;
  std::string path_;
  std::int64_t file_;
  std::uint64_t bytes_ = 0;
};

/// A file being read at any offset.
///
/// errors: Fault::kResource as above; Fault::kInput when it ends too early
class InputFile {
 public:
  InputFile(FileSystem& files, std::string path);
  ~InputFile();
  InputFile(InputFile&& other) noexcept;
  InputFile& operator=(InputFile&&) = delete;

  /// Fills all of `bytes`.
  void read_at(std::uint64_t offset, std::span<std::byte> bytes) const;
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  FileSystem* files_;
  std::string path_;
  std::int64_t file_;
  std::uint64_t bytes_ = 0;
};

/// The path of a directory without a slash at its end: `./` gives `.`, `a//b/.` gives `a/b`.
[[nodiscard]] std::string plain_directory(const std::string& path);

// Each raises Fault::kResource with the path and the system's word for the error.
[[nodiscard]] bool exists(FileSystem& files, const std::string& path);
[[nodiscard]] FileFacts stat_path(FileSystem& files, const std::string& path);
/// Names in the directory, sorted; empty when there is no such directory.
[[nodiscard]] std::vector<std::string> list_directory(FileSystem& files, const std::string& path);
[[nodiscard]] std::uint64_t free_bytes(FileSystem& files, const std::string& path);
/// Makes a directory and its parents; an existing one is kept.
void make_directories(FileSystem& files, const std::string& path);
void rename_path(FileSystem& files, const std::string& from, const std::string& to);
/// Makes the names in a directory durable.
void sync_directory(FileSystem& files, const std::string& path);
/// Removes a file, or a directory with all that is in it; links are removed, not followed.
void remove_tree(FileSystem& files, const std::string& path);

/// errors: Fault::kInput when the file is larger than `max_bytes`
[[nodiscard]] std::string read_text_file(FileSystem& files, const std::string& path,
                                         std::uint64_t max_bytes);
/// Writes PATH.part, syncs it and renames it to PATH: a reader sees the old or the new content.
void replace_file(FileSystem& files, const std::string& path, std::string_view text);

}  // namespace tributary
