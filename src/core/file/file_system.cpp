#include "core/file/file_system.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "core/error.h"

namespace tributary {
namespace {

/// Returns the result of a system call, or raises with the call and the path.
std::int64_t require(std::int64_t result, std::string_view call, const std::string& path) {
  if (result < 0)
    TRIB_RAISE(Fault::kResource, .what = str("file: ", call, " fails"), .where = path,
               .found = std::generic_category().message(static_cast<int>(-result)));
  return result;
}

std::int64_t open_for(FileSystem& files, const std::string& path, OpenFor purpose) {
  std::int64_t file = -EINTR;
  while (file == -EINTR) file = files.open(path, purpose);
  if (file == -ELOOP && purpose == OpenFor::kCreate)
    TRIB_RAISE(Fault::kResource, .what = "file: a symbolic link where a file is written",
               .where = path, .expected = "a plain file: what it points to must not change",
               .fix = "remove the link");
  return require(file, "open", path);
}

}  // namespace

OutputFile::OutputFile(FileSystem& files, std::string path)
    : files_(files), path_(std::move(path)), file_(open_for(files, path_, OpenFor::kCreate)) {}

OutputFile::~OutputFile() { files_.close(file_); }

void OutputFile::append(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const std::int64_t written = files_.write(file_, bytes);
    if (written == -EINTR) continue;
    require(written, "write", path_);
    if (written == 0) require(-ENOSPC, "write", path_);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
    bytes_ += static_cast<std::uint64_t>(written);
  }
}

void OutputFile::append(std::string_view text) { append(std::as_bytes(std::span(text))); }

void OutputFile::sync() {
  std::int64_t result = -EINTR;
  while (result == -EINTR) result = files_.fsync(file_);
  require(result, "fsync", path_);
}

InputFile::InputFile(FileSystem& files, std::string path)
    : files_(&files), path_(std::move(path)), file_(open_for(files, path_, OpenFor::kRead)) {
  const std::int64_t size = files.size(file_);
  if (size < 0) files.close(file_);
  bytes_ = static_cast<std::uint64_t>(require(size, "stat", path_));
}

InputFile::~InputFile() {
  if (file_ >= 0) files_->close(file_);
}

InputFile::InputFile(InputFile&& other) noexcept
    : files_(other.files_),
      path_(std::move(other.path_)),
      file_(std::exchange(other.file_, -1)),
      bytes_(other.bytes_) {}

void InputFile::read_at(std::uint64_t offset, std::span<std::byte> bytes) const {
  while (!bytes.empty()) {
    const std::int64_t got = files_->pread(file_, bytes, offset);
    if (got == -EINTR) continue;
    require(got, "read", path_);
    TRIB_REQUIRE(got > 0, .what = "file: ends too early", .where = path_,
                 .found = str("end at byte ", offset),
                 .expected = str(bytes.size(), " more bytes"));
    bytes = bytes.subspan(static_cast<std::size_t>(got));
    offset += static_cast<std::uint64_t>(got);
  }
}

bool exists(FileSystem& files, const std::string& path) {
  FileFacts facts;
  const std::int64_t result = files.stat(path, facts);
  if (result == -ENOENT || result == -ENOTDIR) return false;
  require(result, "stat", path);
  return true;
}

FileFacts stat_path(FileSystem& files, const std::string& path) {
  FileFacts facts;
  require(files.stat(path, facts), "stat", path);
  return facts;
}

std::vector<std::string> list_directory(FileSystem& files, const std::string& path) {
  std::vector<std::string> names;
  const std::int64_t result = files.list(path, names);
  if (result == -ENOENT) return {};
  require(result, "list", path);
  std::sort(names.begin(), names.end());
  return names;
}

std::uint64_t free_bytes(FileSystem& files, const std::string& path) {
  std::uint64_t bytes = 0;
  require(files.free_bytes(path, bytes), "statvfs", path);
  return bytes;
}

void make_directories(FileSystem& files, const std::string& path) {
  if (path.empty() || exists(files, path)) return;
  make_directories(files, std::filesystem::path(path).parent_path().string());
  const std::int64_t result = files.make_directory(path);
  if (result != -EEXIST) require(result, "mkdir", path);
}

void rename_path(FileSystem& files, const std::string& from, const std::string& to) {
  require(files.rename(from, to), "rename", str(from, " -> ", to));
}

void sync_directory(FileSystem& files, const std::string& path) {
  const std::int64_t directory = open_for(files, path, OpenFor::kDirectory);
  std::int64_t result = -EINTR;
  while (result == -EINTR) result = files.fsync(directory);
  files.close(directory);
  require(result, "fsync", path);
}

void remove_tree(FileSystem& files, const std::string& path) {
  if (stat_path(files, path).kind != FileKind::kDirectory) {
    require(files.unlink(path), "unlink", path);
    return;
  }
  for (const std::string& name : list_directory(files, path)) remove_tree(files, path + "/" + name);
  require(files.remove_directory(path), "rmdir", path);
}

std::string plain_directory(const std::string& path) {
  const std::filesystem::path plain =
      std::filesystem::path(path + "/").lexically_normal().parent_path();
  return plain.empty() ? "." : plain.string();
}

std::string read_text_file(FileSystem& files, const std::string& path, std::uint64_t max_bytes) {
  const InputFile file(files, path);
  TRIB_REQUIRE(file.bytes() <= max_bytes, .what = "file: larger than the limit", .where = path,
               .found = str(file.bytes(), " bytes"), .expected = str("at most ", max_bytes));
  std::string text(file.bytes(), '\0');
  file.read_at(0, std::as_writable_bytes(std::span(text)));
  return text;
}

void replace_file(FileSystem& files, const std::string& path, std::string_view text) {
  const std::string part = path + ".part";
  {
    OutputFile out(files, part);
    out.append(text);
    out.sync();
  }
  rename_path(files, part, path);
}

}  // namespace tributary
