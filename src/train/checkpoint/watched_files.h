#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "core/file/file_system.h"

namespace tributary::train {

/// Passes calls on to another file system so that none of them takes long on a slow disk, and says
/// after each that the work goes on, for the watch of the rank (mesh/health/health.h).
///
/// A write takes at most kMaxWritten bytes, and a file is synced whenever kMaxUnsynced bytes were
/// written to it: the sync at its end would else wait for all that the system holds back.
/// One thread at a time.
class WatchedFiles final : public FileSystem {
 public:
  static constexpr std::uint64_t kMaxWritten = std::uint64_t{4} << 20;
  static constexpr std::uint64_t kMaxUnsynced = std::uint64_t{256} << 20;

  /// `on_call` may be empty. owns: nothing; `under` outlives this
  WatchedFiles(FileSystem& under, std::function<void()> on_call);

  /// Whether calls are reported, from now on: a thread that writes behind the back of the one that
  /// is watched must not speak for it. They are at first. Any thread may say so.
  void set_watched(bool watched) { is_watched_.store(watched, std::memory_order_relaxed); }

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

 private:
  std::int64_t report(std::int64_t result);

  FileSystem& under_;
  std::function<void()> on_call_;
  std::atomic<bool> is_watched_ = true;
  std::map<std::int64_t, std::uint64_t> unsynced_;  // bytes by open file
};

}  // namespace tributary::train
