#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/file/file_system.h"

namespace tributary::train {

/// One change that a program made to a disk, or one of its syncs.
struct DiskOperation {
  enum class Kind { kCreate, kWrite, kSync, kSyncDirectory, kRename, kUnlink, kMkdir, kRmdir };
  Kind kind = Kind::kWrite;
  std::string path;  // of a file operation: the name under which it was opened
  std::string to;    // of a rename
  int inode = 0;     // of kCreate, kWrite, kSync
  std::string data;  // of kWrite
};

/// A disk in memory. Records what changes it, in order.
class MemoryFileSystem : public FileSystem {
 public:
  std::int64_t open(const std::string& path, OpenFor purpose) override;
  std::int64_t write(std::int64_t file, std::span<const std::byte> bytes) override;
  std::int64_t pread(std::int64_t file, std::span<std::byte> bytes, std::uint64_t offset) override;
  std::int64_t size(std::int64_t file) override;
  std::int64_t fsync(std::int64_t file) override;
  void close(std::int64_t file) override;
  std::int64_t rename(const std::string& from, const std::string& to) override;
  std::int64_t unlink(const std::string& path) override;
  std::int64_t make_directory(const std::string& path) override;
  std::int64_t remove_directory(const std::string& path) override;
  std::int64_t list(const std::string& path, std::vector<std::string>& names) override;
  std::int64_t stat(const std::string& path, FileFacts& facts) override;
  std::int64_t free_bytes(const std::string& path, std::uint64_t& bytes) override;

  /// A disk with the same content and an empty record.
  [[nodiscard]] MemoryFileSystem copy() const;
  [[nodiscard]] const std::vector<DiskOperation>& record() const { return record_; }
  /// Repeats one operation of another disk's record. It does nothing where its file or folder was
  /// lost.
  void repeat(const DiskOperation& operation);
  /// Content of every file by path.
  [[nodiscard]] std::map<std::string, std::string> content() const;

 private:
  static constexpr int kDirectoryNode = -1;
  struct OpenFile {
    int inode = 0;
    std::string path;
  };
  [[nodiscard]] bool has_parent(const std::string& path) const;
  [[nodiscard]] bool is_directory(const std::string& path) const;
  [[nodiscard]] bool is_empty(const std::string& path) const;

  std::map<std::string, int> names_;  // path -> inode or kDirectoryNode; "" is the root
  std::map<int, std::string> inodes_;
  std::map<std::int64_t, OpenFile> open_;
  std::int64_t next_file_ = 3;
  int next_inode_ = 1;
  std::vector<DiskOperation> record_;
};

/// The disks that a power cut after `done` operations may leave: what was synced is there, and any
/// part of the rest. At most `max` of them, all subsets where at most six operations are in doubt;
/// writes in doubt may also be torn into pages of 4 KiB.
[[nodiscard]] std::vector<MemoryFileSystem> disks_after_power_cut(
    const MemoryFileSystem& before, const std::vector<DiskOperation>& record, std::size_t done,
    std::size_t max, std::uint64_t seed);

/// Passes calls on until the n-th, which it answers by itself.
class FaultyFileSystem final : public FileSystem {
 public:
  enum class Fault { kError, kShort, kInterrupt, kKill };
  /// `at` counts from 0; `error` is the errno of kError. After kError at an fsync or write the disk
  /// stays as it is; later calls work again unless `stays`.
  FaultyFileSystem(FileSystem& under, Fault fault, std::int64_t at, int error = 0,
                   bool stays = false)
      : under_(under), fault_(fault), at_(at), error_(error), stays_(stays) {}

  std::int64_t open(const std::string& path, OpenFor purpose) override;
  std::int64_t write(std::int64_t file, std::span<const std::byte> bytes) override;
  std::int64_t pread(std::int64_t file, std::span<std::byte> bytes, std::uint64_t offset) override;
  std::int64_t size(std::int64_t file) override;
  std::int64_t fsync(std::int64_t file) override;
  void close(std::int64_t file) override;
  std::int64_t rename(const std::string& from, const std::string& to) override;
  std::int64_t unlink(const std::string& path) override;
  std::int64_t make_directory(const std::string& path) override;
  std::int64_t remove_directory(const std::string& path) override;
  std::int64_t list(const std::string& path, std::vector<std::string>& names) override;
  std::int64_t stat(const std::string& path, FileFacts& facts) override;
  std::int64_t free_bytes(const std::string& path, std::uint64_t& bytes) override;

  [[nodiscard]] std::int64_t calls() const { return calls_; }

 private:
  /// Minus errno where this call is the one to fail, else 0.
  std::int64_t fail_here(bool changes);
  /// How many of the bytes go through.
  std::size_t shortened(std::size_t bytes);

  FileSystem& under_;
  Fault fault_;
  std::int64_t at_;
  int error_;
  bool stays_;
  std::int64_t calls_ = 0;
};

}  // namespace tributary::train
