#include "core/file/given_file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <utility>

#include "core/handle.h"
#include "core/text.h"

namespace tributary {
namespace {

constexpr int kForWriting = O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC;
constexpr std::uint64_t kBlockBytes = std::uint64_t{1} << 20;

/// Writes the whole text and closes the file; returns 0, or the errno of the call that failed.
int write_all(Descriptor file, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(file.get(), text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  const bool is_synced = ::fsync(file.get()) == 0 || errno == EINVAL || errno == EROFS;
  return is_synced ? 0 : errno;  // pipes and devices have nothing to sync
}

/// Whether a path is a link, or no plain file: a rename over it would replace the link or device.
bool is_written_in_place(const std::string& path) {
  struct stat facts {};
  return ::lstat(path.c_str(), &facts) == 0 && !S_ISREG(facts.st_mode);
}

/// A temporary file beside the path, which is renamed to the path when it is complete.
class PartFile {
 public:
  explicit PartFile(const std::string& path)
      : path_(path + ".part"),
        file_(path.empty() ? -1 : ::open(path_.c_str(), kForWriting, 0666)),
        failure_(path.empty() ? ENOENT
                 : file_      ? 0
                              : errno) {}
  ~PartFile() {
    if (failure_ == 0 && !is_renamed_) ::unlink(path_.c_str());
  }
  PartFile(const PartFile&) = delete;
  PartFile& operator=(const PartFile&) = delete;

  [[nodiscard]] int failure() const { return failure_; }
  /// Returns 0, or the errno of the call that failed.
  int replace(const std::string& path, std::string_view text) {
    const int failure = write_all(std::move(file_), text);
    if (failure != 0) return failure;
    is_renamed_ = ::rename(path_.c_str(), path.c_str()) == 0;
    return is_renamed_ ? 0 : errno;
  }

 private:
  std::string path_;
  Descriptor file_;
  int failure_;  // errno of opening it, or 0
  bool is_renamed_ = false;
};

void refuse_output(int reason, const std::string& path, ErrorParts& parts,
                   std::source_location raised_at) {
  if (reason == 0) return;
  parts.where = path;
  parts.found = reason == EISDIR ? "a directory" : std::strerror(reason);
  parts.fix = reason == EISDIR                        ? "name a file in it"
              : reason == ENOENT || reason == ENOTDIR ? "correct the path, or make the folder"
              : reason == EACCES || reason == EROFS
                  ? "make its folder writable, or name a file in another one with --output"
                  : "name another file with --output";
  raise(Fault::kResource, parts, raised_at);
}

bool is_directory(const std::string& path) {
  struct stat facts {};
  return ::stat(path.c_str(), &facts) == 0 && S_ISDIR(facts.st_mode);
}

}  // namespace

std::string read_given_file(const std::string& path, std::uint64_t max_bytes, ErrorParts parts,
                            std::source_location raised_at) {
  parts.where = path;
  const auto refuse = [&](const std::string& found, const char* fix) {
    parts.found = found;
    if (parts.fix.empty()) parts.fix = fix;
    raise(Fault::kInput, parts, raised_at);
  };
  const auto refuse_by_system = [&](int reason) {
    refuse(std::strerror(reason), reason == ENOENT || reason == ENOTDIR
                                      ? "correct the path, or make the file"
                                      : "make the file readable");
  };
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) refuse_by_system(errno);
  struct stat facts {};
  if (::fstat(file.get(), &facts) != 0) refuse_by_system(errno);
  if (S_ISDIR(facts.st_mode)) refuse("a directory", "name a file in it");

  std::string text;
  for (std::uint64_t have = 0; have <= max_bytes;) {
    text.resize(have + std::min(kBlockBytes, max_bytes + 1 - have));
    const ssize_t got = ::read(file.get(), text.data() + have, text.size() - have);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) refuse_by_system(errno);
    have += static_cast<std::uint64_t>(got);
    text.resize(have);
    if (got == 0) break;
  }
  return text;
}

Json read_given_json(const std::string& path, ErrorParts parts, JsonLimits limits,
                     std::source_location raised_at) {
  return parse_json(read_given_file(path, limits.max_bytes, std::move(parts), raised_at), path,
                    limits);
}

void write_given_file(const std::string& path, std::string_view text, ErrorParts parts,
                      std::source_location raised_at) {
  if (is_directory(path)) refuse_output(EISDIR, path, parts, raised_at);
  int failure = 0;
  if (is_written_in_place(path)) {
    Descriptor file(::open(path.c_str(), kForWriting, 0666));
    failure = file ? write_all(std::move(file), text) : errno;
  } else {
    PartFile part(path);
    failure = part.failure() != 0 ? part.failure() : part.replace(path, text);
  }
  refuse_output(failure, path, parts, raised_at);
}

void check_given_output(const std::string& path, ErrorParts parts, std::source_location raised_at) {
  if (is_directory(path)) refuse_output(EISDIR, path, parts, raised_at);
  int failure = 0;
  if (is_written_in_place(path)) {
    const bool is_dangling = ::access(path.c_str(), F_OK) != 0;
    failure = is_dangling || ::access(path.c_str(), W_OK) == 0 ? 0 : errno;
  } else {
    failure = PartFile(path).failure();
  }
  refuse_output(failure, path, parts, raised_at);
}

std::string shown_path(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::path(path).is_absolute()) return path;
  return str(path, " (from ", std::filesystem::current_path(ignored).string(), ")");
}

}  // namespace tributary
