#include "data/record/stored_file.h"

#define XXH_INLINE_ALL
#include <array>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>
#include <xxhash.h>

#include "core/error.h"
#include "core/file/given_file.h"

namespace tributary::data {
namespace {

std::int64_t changed_at(const struct stat& facts) {
  return facts.st_mtim.tv_sec * 1'000'000'000 + facts.st_mtim.tv_nsec;
}

[[noreturn]] void refuse_open(const std::string& path, int reason) {
  TRIB_RAISE(Fault::kInput, .what = "data: file cannot be opened", .where = shown_path(path),
             .found = std::strerror(reason),
             .fix = reason == EACCES ? "chmod u+r the file and make its directories searchable"
                                     : "correct the path of the source; relative paths start from "
                                       "the directory where `tributary` is started");
}

}  // namespace

StoredFile::StoredFile(std::string path) : path_(std::move(path)) {
  file_ = Descriptor(open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file_) refuse_open(path_, errno);
  struct stat facts {};
  TRIB_REQUIRE(fstat(file_.get(), &facts) == 0, .what = "data: file cannot be opened",
               .where = shown_path(path_), .found = std::strerror(errno));
  TRIB_REQUIRE(S_ISREG(facts.st_mode), .what = "data: not a regular file",
               .where = shown_path(path_), .expected = "a file of records");
  bytes_ = facts.st_size;
  changed_ns_ = changed_at(facts);
}

std::int64_t StoredFile::read_at(char* to, std::size_t count, std::int64_t offset) const {
  std::size_t done = 0;
  while (done < count) {
    const ssize_t got =
        pread(file_.get(), to + done, count - done, offset + static_cast<off_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return -1;
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  return static_cast<std::int64_t>(done);
}

std::size_t StoredFile::read_block(char* to, std::size_t count, std::int64_t offset) const {
  const std::int64_t got = read_at(to, count, offset);
  if (got < 0)
    TRIB_RAISE(Fault::kResource, .what = "data: reading failed", .where = path_,
               .found = std::strerror(errno));
  return static_cast<std::size_t>(got);
}

std::optional<Refusal> StoredFile::refuse_change() const {
  struct stat facts {};
  if (fstat(file_.get(), &facts) != 0) return Refusal{"read_failed", std::strerror(errno)};
  if (facts.st_size == bytes_ && changed_at(facts) == changed_ns_) return std::nullopt;
  return Refusal{"file_changed", str("file has ", facts.st_size, " bytes, ", bytes_,
                                     " when the run began, or was written since")};
}

std::string digits_of(std::uint64_t hash) {
  std::array<char, 17> digits{};
  std::snprintf(digits.data(), digits.size(), "%016" PRIx64, hash);
  return digits.data();
}

std::string digest_of(const StoredFile& file) {
  constexpr std::size_t kBytes = std::size_t{1} << 20;
  XXH3_state_t hash;
  XXH3_64bits_reset(&hash);
  std::vector<char> block(kBytes);
  std::int64_t at = 0;
  while (const std::size_t got = file.read_block(block.data(), block.size(), at)) {
    XXH3_64bits_update(&hash, block.data(), got);
    at += static_cast<std::int64_t>(got);
  }
  return digits_of(XXH3_64bits_digest(&hash));
}

}  // namespace tributary::data
