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
#include "core/file/given_file.h"

namespace tributary::data {
namespace {

constexpr std::size_t kMaxFileBytes = std::size_t{512} << 20;
constexpr int kReadTries = 3;
constexpr int kOpenFlags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;  // a FIFO must not block

int open_by_kernel(int folder, const std::string& path) {
  open_how how{};
  how.flags = kOpenFlags;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS;
  return static_cast<int>(syscall(SYS_openat2, folder, path.c_str(), &how, sizeof how));
}

/// Opens a file after comparing resolved paths; errno is EXDEV when it lies outside, as with
/// openat2.
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
  if (reason == ENOENT || reason == ENOTDIR) {
    const std::string last = std::filesystem::path(root).filename().string() + "/";
    const bool names_it_twice = last.size() > 1 && path.starts_with(last);
    return {"missing_file", str(shown, " does not exist",
                                names_it_twice ? "; paths start within that folder: leave out " +
                                                     last + ", or name the folder above as `images`"
                                               : "")};
  }
  return {"read_failed", str(shown, ": ", std::strerror(reason))};
}

/// Reads until `max` bytes or the end; a failing read is repeated a few times.
Result<std::vector<std::uint8_t>> read_all(int file, std::size_t max, const std::string& path) {
  std::vector<std::uint8_t> bytes(max);
  std::size_t done = 0;
  int failures = 0;
  while (done < max) {
    const ssize_t got = pread(file, bytes.data() + done, max - done, static_cast<off_t>(done));
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

Result<std::string> MediaFolder::below_root(const std::string& path) const {
  const std::string shown = escaped(path);
  if (path.empty()) return Refusal{"bad_path", "path is empty"};
  if (path.starts_with("file:"))
    return Refusal{"bad_path", str(shown, " is a URL; write the path alone, without `file://`")};
  if (path.find("://") != std::string::npos)
    return Refusal{"bad_path", str(shown, " is a URL; nothing is fetched from the network")};
  if (path.find('\0') != std::string::npos)
    return Refusal{"bad_path", str(shown, " holds a NUL character")};
  const std::filesystem::path parts(path);
  if (std::find(parts.begin(), parts.end(), "..") != parts.end())
    return Refusal{"path_escapes", str(shown, " holds \"..\"")};
  if (!parts.is_absolute()) return path;
  for (const std::string& root : absolute_roots_)
    if (path.starts_with(root)) return path.substr(root.size());
  return Refusal{"path_escapes", str(shown, " is absolute and not below ", shown_path(root_),
                                     "; set `images` of the source (--images of data inspect) to "
                                     "a folder above it, or add one to its `roots`")};
}

bool MediaFolder::holds(const std::string& path) const {
  return !path.starts_with('/') ||
         std::ranges::any_of(absolute_roots_,
                             [&](const std::string& root) { return path.starts_with(root); });
}

MediaFolder::MediaFolder(std::string root, Confinement confinement)
    : root_(std::move(root)), confinement_(confinement) {
  folder_ = Descriptor(open(root_.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  TRIB_REQUIRE(folder_, .what = "data: image folder does not exist", .where = shown_path(root_),
               .found = std::strerror(errno), .expected = "a folder that can be entered",
               .fix =
                   "correct `images` of the source; relative paths start from the directory "
                   "where `tributary` is started");
  std::error_code failure;
  const std::string written = std::filesystem::absolute(root_, failure).lexically_normal().string();
  const std::string resolved = std::filesystem::canonical(root_, failure).string();
  for (const std::string& each : {written, resolved})
    if (!each.empty()) absolute_roots_.push_back(each.ends_with('/') ? each : each + "/");
}

Result<Descriptor> MediaFolder::open_file(const std::string& given) const {
  const Result<std::string> below = below_root(given);
  if (!below) return below.refusal();
  const std::string& path = below.value();
  Descriptor file(confinement_ == Confinement::kKernel ? open_by_kernel(folder_.get(), path)
                                                       : open_by_resolved_path(root_, path));
  if (!file && confinement_ == Confinement::kKernel && errno == ENOSYS)
    file = Descriptor(open_by_resolved_path(root_, path));
  if (!file) return refuse_open(path, root_, errno);
  struct stat facts {};
  if (fstat(file.get(), &facts) != 0) return refuse_open(path, root_, errno);
  if (!S_ISREG(facts.st_mode))
    return Refusal{"not_a_file",
                   str(escaped(path), S_ISDIR(facts.st_mode) ? " is a directory" : " is no file")};
  if (static_cast<std::size_t>(facts.st_size) > kMaxFileBytes)
    return Refusal{"too_large",
                   str(escaped(path), " has ", facts.st_size, " bytes, limit ", kMaxFileBytes)};
  return file;
}

Result<std::vector<std::uint8_t>> MediaFolder::read(const std::string& path) const {
  return read_beginning(path, kMaxFileBytes);
}

Result<std::vector<std::uint8_t>> MediaFolder::read_beginning(const std::string& path,
                                                              std::size_t max) const {
  const Result<Descriptor> file = open_file(path);
  if (!file) return file.refusal();
  struct stat facts {};
  if (fstat(file.value().get(), &facts) != 0) return refuse_open(path, root_, errno);
  return read_all(file.value().get(), std::min(max, static_cast<std::size_t>(facts.st_size)), path);
}

MediaRoots::MediaRoots(const std::string& folder, const std::vector<std::string>& roots) {
  folders_.emplace_back(folder);
  for (const std::string& root : roots) folders_.emplace_back(root);
}

bool MediaRoots::holds(const std::string& path) const { return folder_of(path).holds(path); }

/// The first folder that may hold the path; if none may, the first says why it does not.
const MediaFolder& MediaRoots::folder_of(const std::string& path) const {
  const auto found =
      std::ranges::find_if(folders_, [&](const MediaFolder& each) { return each.holds(path); });
  return found == folders_.end() ? folders_.front() : *found;
}

Result<std::vector<std::uint8_t>> MediaRoots::read(const std::string& path) const {
  return folder_of(path).read(path);
}

Result<std::vector<std::uint8_t>> MediaRoots::read_beginning(const std::string& path,
                                                             std::size_t max) const {
  return folder_of(path).read_beginning(path, max);
}

}  // namespace tributary::data
