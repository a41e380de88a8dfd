#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <dirent.h>
#include <fcntl.h>
#include <memory>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "core/file/file_system.h"

namespace tributary {
namespace {

std::int64_t or_errno(std::int64_t result) { return result < 0 ? -errno : result; }

int flags_of(OpenFor purpose) {
  switch (purpose) {
    case OpenFor::kRead:
      return O_RDONLY | O_CLOEXEC | O_NONBLOCK;  // a FIFO must not block; a file ignores the flag
    case OpenFor::kCreate:
      return O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW;
    case OpenFor::kDirectory:
      return O_RDONLY | O_DIRECTORY | O_CLOEXEC;
  }
  return O_RDONLY;
}

class RealFileSystem final : public FileSystem {
 public:
  std::int64_t open(const std::string& path, OpenFor purpose) override {
    return or_errno(::open(path.c_str(), flags_of(purpose), 0666));
  }
  std::int64_t write(std::int64_t file, std::span<const std::byte> bytes) override {
    return or_errno(::write(static_cast<int>(file), bytes.data(), bytes.size()));
  }
  std::int64_t pread(std::int64_t file, std::span<std::byte> bytes, std::uint64_t offset) override {
    return or_errno(
        ::pread(static_cast<int>(file), bytes.data(), bytes.size(), static_cast<off_t>(offset)));
  }
  std::int64_t size(std::int64_t file) override {
    struct stat found {};
    if (::fstat(static_cast<int>(file), &found) != 0) return -errno;
    return S_ISREG(found.st_mode) ? static_cast<std::int64_t>(found.st_size) : -EINVAL;
  }
  std::int64_t fsync(std::int64_t file) override {
    return or_errno(::fsync(static_cast<int>(file)));
  }
  void close(std::int64_t file) override { ::close(static_cast<int>(file)); }

  std::int64_t rename(const std::string& from, const std::string& to) override {
    return or_errno(::rename(from.c_str(), to.c_str()));
  }
  std::int64_t unlink(const std::string& path) override { return or_errno(::unlink(path.c_str())); }
  std::int64_t make_directory(const std::string& path) override {
    return or_errno(::mkdir(path.c_str(), 0777));
  }
  std::int64_t remove_directory(const std::string& path) override {
    return or_errno(::rmdir(path.c_str()));
  }
  std::int64_t list(const std::string& path, std::vector<std::string>& names) override {
    const std::unique_ptr<DIR, decltype([](DIR* open) { ::closedir(open); })> directory(
        ::opendir(path.c_str()));
    if (directory == nullptr) return -errno;
    errno = 0;
    while (const dirent* entry = ::readdir(directory.get())) {
      const std::string name = entry->d_name;
      if (name != "." && name != "..") names.push_back(name);
    }
    return -errno;
  }
  std::int64_t stat(const std::string& path, FileFacts& facts) override {
    struct stat found {};
    if (::lstat(path.c_str(), &found) != 0) return -errno;
    facts.bytes = static_cast<std::uint64_t>(found.st_size);
    facts.kind = S_ISREG(found.st_mode)   ? FileKind::kFile
                 : S_ISDIR(found.st_mode) ? FileKind::kDirectory
                 : S_ISLNK(found.st_mode) ? FileKind::kLink
                                          : FileKind::kOther;
    return 0;
  }
  std::int64_t free_bytes(const std::string& path, std::uint64_t& bytes) override {
    struct statvfs found {};
    if (::statvfs(path.c_str(), &found) != 0) return -errno;
    bytes = std::uint64_t{found.f_bavail} * found.f_frsize;
    return 0;
  }
};

}  // namespace

FileSystem& real_file_system() {
  static RealFileSystem files;
  return files;
}

}  // namespace tributary
