#include <cerrno>
#include <csignal>

#include "tests/train/checkpoint/memory_file_system.h"

namespace tributary::train {

std::int64_t FaultyFileSystem::fail_here(bool changes) {
  const std::int64_t call = calls_++;
  switch (fault_) {
    case Fault::kError:
      return call == at_ || (stays_ && changes && call > at_) ? -error_ : 0;
    case Fault::kInterrupt:
      return call == at_ ? -EINTR : 0;
    case Fault::kKill:
      if (call == at_) (void)::raise(SIGKILL);
      return 0;
    case Fault::kShort:
      return 0;
  }
  return 0;
}

std::size_t FaultyFileSystem::shortened(std::size_t bytes) {
  return fault_ == Fault::kShort && calls_ - 1 == at_ && bytes > 1 ? bytes / 2 : bytes;
}

std::int64_t FaultyFileSystem::open(const std::string& path, OpenFor purpose) {
  const std::int64_t failure = fail_here(purpose == OpenFor::kCreate);
  return failure != 0 ? failure : under_.open(path, purpose);
}

std::int64_t FaultyFileSystem::write(std::int64_t file, std::span<const std::byte> bytes) {
  if (fault_ == Fault::kKill && calls_ == at_)  // in the middle of the write
    (void)under_.write(file, bytes.first(bytes.size() / 2));
  const std::int64_t failure = fail_here(true);
  return failure != 0 ? failure : under_.write(file, bytes.first(shortened(bytes.size())));
}

std::int64_t FaultyFileSystem::pread(std::int64_t file, std::span<std::byte> bytes,
                                     std::uint64_t offset) {
  const std::int64_t failure = fail_here(false);
  return failure != 0 ? failure : under_.pread(file, bytes.first(shortened(bytes.size())), offset);
}

std::int64_t FaultyFileSystem::size(std::int64_t file) { return under_.size(file); }

std::int64_t FaultyFileSystem::fsync(std::int64_t file) {
  const std::int64_t failure = fail_here(true);
  return failure != 0 ? failure : under_.fsync(file);
}

void FaultyFileSystem::close(std::int64_t file) { under_.close(file); }

// Only open, read, write and fsync can be interrupted by EINTR, an operation on names never.
#define FAIL_HERE(changes)                             \
  if (const std::int64_t failure = fail_here(changes); \
      failure != 0 && fault_ != Fault::kInterrupt)     \
  return failure

std::int64_t FaultyFileSystem::rename(const std::string& from, const std::string& to) {
  FAIL_HERE(true);
  return under_.rename(from, to);
}
std::int64_t FaultyFileSystem::unlink(const std::string& path) {
  FAIL_HERE(false);
  return under_.unlink(path);
}
std::int64_t FaultyFileSystem::make_directory(const std::string& path) {
  FAIL_HERE(true);
  return under_.make_directory(path);
}
std::int64_t FaultyFileSystem::remove_directory(const std::string& path) {
  FAIL_HERE(false);
  return under_.remove_directory(path);
}
std::int64_t FaultyFileSystem::list(const std::string& path, std::vector<std::string>& names) {
  FAIL_HERE(false);
  return under_.list(path, names);
}
std::int64_t FaultyFileSystem::stat(const std::string& path, FileFacts& facts) {
  FAIL_HERE(false);
  return under_.stat(path, facts);
}
std::int64_t FaultyFileSystem::free_bytes(const std::string& path, std::uint64_t& bytes) {
  FAIL_HERE(false);
  return under_.free_bytes(path, bytes);
}

#undef FAIL_HERE

}  // namespace tributary::train
