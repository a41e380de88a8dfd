#include "data/record/media_folder.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <linux/openat2.h>
#include <memory>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/error.h"

namespace tributary::data {
namespace {

constexpr std::size_t kMostFileBytes = std::size_t{512} << 20;
constexpr int kReadTries = 3;
constexpr int kOpenFlags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;  // a FIFO must not block

/// Refuses what no file system needs to be asked about.
std::optional<Refusal> refuse_path(const std::string& path) {
  const std::string shown = escaped(path);
  if (path.empty()) return Refusal{"bad_path", "path is empty"};
  if (path.find("://") != std::string::npos)
    return Refusal{"bad_path", str(shown, " is a URL; nothing is fetched from the network")};
  if (path.find('\0') != std::string::npos)
    return Refusal{"bad_path", str(shown, " holds a NUL character")};
  const std::filesystem::path parts(path);
  if (parts.is_absolute())
    return Refusal{"path_escapes", str(shown, " is absolute, expected a relative path")};
  if (std::find(parts.begin(), parts.end(), "..") != parts.end())
    return Refusal{"path_escapes", str(shown, " holds \"..\"")};
  return std::nullopt;
}

int open_by_kernel(int folder, const std::string& path) {
  open_how how{};
  how.flags = kOpenFlags;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS;
  return static_cast<int>(syscall(SYS_openat2, folder, path.c_str(), &how, sizeof how));
}

/// Opens after comparing resolved paths; errno is EXDEV when the file lies outside, as openat2
/// says.
int open_by_resolved_path(const std::string& root, const std::string& path) {
  const std::unique_ptr<char, decltype(&std::free)> home(realpath(root.c_str(), nullptr),
                                                         &std::free);
  const std::unique_ptr<char, decltype(&std::free)> file(
      realpath((root + "/" + path).c_str(), nullptr), &std::free);
  if (!home || !file) return -1;
  if (!std::string_view(file.get()).starts_with(std::string(home.get()) + "/")) {
    errno = EXDEV;
    return -1;
  }
  return open(file.get(), kOpenFlags | O_NOFOLLOW);
}

Refusal refuse_open(const std::string& path, const std::string& root, int reason) {
  TRIB_CHECK(reason != EFAULT && reason != E2BIG, .what = "data: openat2 was called wrongly");
  if (reason == EMFILE || reason == ENFILE || reason == ENOMEM)
    TRIB_RAISE(Fault::kResource, .what = "data: file cannot be opened", .where = path,
               .found = std::strerror(reason), .fix = "raise `ulimit -n` or lower data.workers");
  const std::string shown = str(escaped(path), " under ", root);
  if (reason == EXDEV || reason == ELOOP)
    return {"path_escapes", shown + " leads out of the folder by a link"};
  if (reason == ENOENT || reason == ENOTDIR) return {"missing_file", shown + " does not exist"};
  return {"read_failed", str(shown, ": ", std::strerror(reason))};
}

/// Reads until `most` bytes or the end; a failing read is repeated a few times.
Result<std::vector<std::uint8_t>> read_all(int file, std::size_t most, const std::string& path) {
  std::vector<std::uint8_t> bytes(most);
  std::size_t done = 0;
  int failures = 0;
  while (done < most) {
    const ssize_t got = pread(file, bytes.data() + done, most - done, static_cast<off_t>(done));
    if (got == 0) break;
    if (got > 0) {
      done += static_cast<std::size_t>(got);
    } else if (errno != EINTR && ++failures == kReadTries) {
      return Refusal{"read_failed", str(escaped(path), ": ", std::strerror(errno))};
    }
  }
  bytes.resize(done);
  return bytes;
}

}  // namespace

MediaFolder::MediaFolder(std::string root, Confinement confinement)
    : root_(std::move(root)), confinement_(confinement) {
  folder_ = Descriptor(open(root_.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  TRIB_REQUIRE(folder_, .what = "data: image folder does not exist", .where = root_,
               .found = std::strerror(errno), .expected = "a folder that can be entered",
               .fix = "correct `images` of the source");
}

Result<Descriptor> MediaFolder::open_file(const std::string& path) const {
  if (auto refusal = refuse_path(path)) return *refusal;
  Descriptor file(confinement_ == Confinement::kKernel ? open_by_kernel(folder_.get(), path)
                                                       : open_by_resolved_path(root_, path));
  if (!file && confinement_ == Confinement::kKernel && errno == ENOSYS)
    file = Descriptor(open_by_resolved_path(root_, path));
  if (!file) return refuse_open(path, root_, errno);
  struct stat facts {};
  if (fstat(file.get(), &facts) != 0) return refuse_open(path, root_, errno);
  if (!S_ISREG(facts.st_mode))
    return Refusal{"not_a_file", str(escaped(path), " is not a regular file")};
  if (static_cast<std::size_t>(facts.st_size) > kMostFileBytes)
    return Refusal{"too_large",
                   str(escaped(path), " has ", facts.st_size, " bytes, limit ", kMostFileBytes)};
  return file;
}

Result<std::vector<std::uint8_t>> MediaFolder::read(const std::string& path) const {
  return read_beginning(path, kMostFileBytes);
}

Result<std::vector<std::uint8_t>> MediaFolder::read_beginning(const std::string& path,
                                                              std::size_t most) const {
  const Result<Descriptor> file = open_file(path);
  if (!file) return file.refusal();
  struct stat facts {};
  if (fstat(file.value().get(), &facts) != 0) return refuse_open(path, root_, errno);
  return read_all(file.value().get(), std::min(most, static_cast<std::size_t>(facts.st_size)),
                  path);
}

}  // namespace tributary::data
