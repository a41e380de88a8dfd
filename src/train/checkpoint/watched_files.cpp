#include "train/checkpoint/watched_files.h"

#include <algorithm>
#include <utility>

namespace tributary::train {

WatchedFiles::WatchedFiles(FileSystem& under, std::function<void()> on_call)
    : under_(under), on_call_(std::move(on_call)) {}

std::int64_t WatchedFiles::report(std::int64_t result) {
  if (on_call_ && is_watched_.load(std::memory_order_relaxed)) on_call_();
  return result;
}

std::int64_t WatchedFiles::open(const std::string& path, OpenFor purpose) {
  return report(under_.open(path, purpose));
}

std::int64_t WatchedFiles::write(std::int64_t file, std::span<const std::byte> bytes) {
  std::uint64_t& unsynced = unsynced_[file];
  if (unsynced >= kMaxUnsynced) {
    const std::int64_t synced = fsync(file);
    if (synced < 0) return synced;
  }
  const std::int64_t written =
      under_.write(file, bytes.first(std::min<std::uint64_t>(bytes.size(), kMaxWritten)));
  if (written > 0) unsynced += static_cast<std::uint64_t>(written);
  return report(written);
}

std::int64_t WatchedFiles::pread(std::int64_t file, std::span<std::byte> bytes,
                                 std::uint64_t offset) {
  return report(under_.pread(file, bytes, offset));
}

std::int64_t WatchedFiles::size(std::int64_t file) { return report(under_.size(file)); }

std::int64_t WatchedFiles::fsync(std::int64_t file) {
  unsynced_[file] = 0;
  return report(under_.fsync(file));
}

void WatchedFiles::close(std::int64_t file) {
  unsynced_.erase(file);
  under_.close(file);
  (void)report(0);
}

std::int64_t WatchedFiles::rename(const std::string& from, const std::string& to) {
  return report(under_.rename(from, to));
}

std::int64_t WatchedFiles::unlink(const std::string& path) { return report(under_.unlink(path)); }

std::int64_t WatchedFiles::make_directory(const std::string& path) {
  return report(under_.make_directory(path));
}

std::int64_t WatchedFiles::remove_directory(const std::string& path) {
  return report(under_.remove_directory(path));
}

std::int64_t WatchedFiles::list(const std::string& path, std::vector<std::string>& names) {
  return report(under_.list(path, names));
}

std::int64_t WatchedFiles::stat(const std::string& path, FileFacts& facts) {
  return report(under_.stat(path, facts));
}

std::int64_t WatchedFiles::free_bytes(const std::string& path, std::uint64_t& bytes) {
  return report(under_.free_bytes(path, bytes));
}

}  // namespace tributary::train
