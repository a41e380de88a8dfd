#include "data/record/jsonl_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <algorithm>
#include <array>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <limits>
#include <string_view>
#include <xxhash.h>

#include "core/error.h"
#include "core/file/given_file.h"
#include "data/record/other_files.h"

namespace tributary::data {
namespace {

constexpr std::size_t kBlockBytes = std::size_t{1} << 20;
constexpr std::uint32_t kMaxLineBytes = 16u << 20;
constexpr std::uint32_t kLargest = std::numeric_limits<std::uint32_t>::max();
constexpr std::size_t kBeginningBytes = 512;  // a tar archive is known by its 257th byte
constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

std::int64_t changed_at(const struct stat& facts) {
  return facts.st_mtim.tv_sec * 1'000'000'000 + facts.st_mtim.tv_nsec;
}
bool is_blank(char byte) { return byte == ' ' || byte == '\t' || byte == '\r'; }

/// Reads up to `count` bytes at `offset`; fewer at the end of the file, below 0 on failure.
std::int64_t read_at(int file, char* to, std::size_t count, std::int64_t offset) {
  std::size_t done = 0;
  while (done < count) {
    const ssize_t got = pread(file, to + done, count - done, offset + static_cast<off_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return -1;
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  return static_cast<std::int64_t>(done);
}

[[noreturn]] void refuse_open(const std::string& path, int reason) {
  TRIB_RAISE(Fault::kInput, .what = "data: file cannot be opened", .where = shown_path(path),
             .found = std::strerror(reason),
             .fix = reason == EACCES ? "chmod u+r the file and make its directories searchable"
                                     : "correct the path of the source; relative paths start from "
                                       "the directory where `tributary` is started");
}

/// Refuses files that are known to hold no JSON lines, and says how to convert them.
void refuse_other_form(const std::string& path, int file, const struct stat& facts) {
  if (S_ISDIR(facts.st_mode)) {
    const OtherFile other = recognise_directory(path);
    TRIB_RAISE(Fault::kInput, .what = "data: a directory in place of a file",
               .where = shown_path(path), .found = other.what, .expected = "a file of JSON lines",
               .fix = other.fix);
  }
  TRIB_REQUIRE(S_ISREG(facts.st_mode), .what = "data: not a regular file",
               .where = shown_path(path), .expected = "a file of JSON lines");
  std::array<char, kBeginningBytes> beginning{};
  const std::int64_t got = read_at(file, beginning.data(), beginning.size(), 0);
  if (got <= 0) return;  // reading the lines will say what is wrong
  const auto other = recognise_file(path, {beginning.data(), static_cast<std::size_t>(got)});
  if (!other) return;
  TRIB_RAISE(Fault::kInput, .what = "data: file holds no JSON lines", .where = shown_path(path),
             .found = other->what, .expected = "one JSON object a line", .fix = other->fix);
}

}  // namespace

JsonlFile::JsonlFile(std::string path) : path_(std::move(path)) {
  file_ = Descriptor(open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file_) refuse_open(path_, errno);
  struct stat facts {};
  TRIB_REQUIRE(fstat(file_.get(), &facts) == 0, .what = "data: file cannot be opened",
               .where = shown_path(path_), .found = std::strerror(errno));
  refuse_other_form(path_, file_.get(), facts);
  bytes_ = facts.st_size;
  changed_ns_ = changed_at(facts);
  index_lines();
  TRIB_REQUIRE(!lines_.empty(), .what = "data: file holds no record", .where = path_,
               .found = str(bytes_, " bytes, ", blank_lines_, " blank lines"),
               .expected = "one JSON object a line");
  char first = 0;
  TRIB_REQUIRE(read_at(file_.get(), &first, 1, lines_[0].offset) != 1 || first != '[',
               .what = "data: file is one JSON list, not JSON lines", .where = path_,
               .expected = "one JSON object a line",
               .fix = str("jq -c '.[]' ", path_, " > ", path_, "l"));
}

void JsonlFile::add_line(std::int64_t offset, std::int64_t length, std::int64_t number,
                         bool is_blank_line) {
  if (is_blank_line) {
    ++blank_lines_;
    return;
  }
  TRIB_REQUIRE(number < kLargest, .what = "data: file has too many lines", .where = path_,
               .expected = str("fewer than ", kLargest));
  lines_.push_back({offset, static_cast<std::uint32_t>(std::min<std::int64_t>(length, kLargest)),
                    static_cast<std::uint32_t>(number)});
}

void JsonlFile::index_lines() {
  XXH3_state_t hash;
  XXH3_64bits_reset(&hash);
  std::vector<char> block(kBlockBytes);
  std::int64_t at = 0;  // of the block in the file
  std::int64_t line_begin = 0;
  std::int64_t number = 1;
  bool blank = true;  // nothing but white space so far in this line
  for (;;) {
    const std::int64_t got = read_at(file_.get(), block.data(), block.size(), at);
    if (got < 0)
      TRIB_RAISE(Fault::kResource, .what = "data: reading failed", .where = path_,
                 .found = std::strerror(errno));
    if (got == 0) break;
    XXH3_64bits_update(&hash, block.data(), static_cast<std::size_t>(got));
    std::int64_t i = 0;
    if (at == 0 && std::string_view(block.data(), got).starts_with(kByteOrderMark))
      line_begin = i = static_cast<std::int64_t>(kByteOrderMark.size());
    while (i < got) {
      while (blank && i < got && is_blank(block[i])) ++i;
      if (i == got) break;
      blank = blank && block[i] == '\n';
      const void* newline = std::memchr(block.data() + i, '\n', static_cast<std::size_t>(got - i));
      if (newline == nullptr) break;
      const std::int64_t end = at + (static_cast<const char*>(newline) - block.data());
      add_line(line_begin, end - line_begin, number++, blank);
      line_begin = end + 1;
      blank = true;
      i = line_begin - at;
    }
    at += got;
  }
  if (line_begin < at) add_line(line_begin, at - line_begin, number, blank);
  std::array<char, 17> digits{};
  std::snprintf(digits.data(), digits.size(), "%016" PRIx64,
                static_cast<std::uint64_t>(XXH3_64bits_digest(&hash)));
  digest_ = digits.data();
}

Result<std::string> JsonlFile::read(std::int64_t record) const {
  TRIB_CHECK(record >= 0 && record < records(), .what = "data: record outside the file",
             .where = path_, .found = str(record), .expected = str("below ", records()));
  const Line& line = lines_[record];
  if (line.length > kMaxLineBytes)
    return Refusal{"line_too_long", str(line.length == kLargest ? "at least " : "", line.length,
                                        " bytes, limit ", kMaxLineBytes)};
  struct stat facts {};
  if (fstat(file_.get(), &facts) != 0) return Refusal{"read_failed", std::strerror(errno)};
  if (facts.st_size != bytes_ || changed_at(facts) != changed_ns_)
    return Refusal{"file_changed", str("file has ", facts.st_size, " bytes, ", bytes_,
                                       " when the run began, or was written since")};
  std::string text(line.length, '\0');
  const std::int64_t got = read_at(file_.get(), text.data(), text.size(), line.offset);
  if (got != std::int64_t{line.length})
    return Refusal{"read_failed", got < 0 ? std::strerror(errno) : "file ends too early"};
  if (text.ends_with('\r')) text.pop_back();
  return text;
}

std::string JsonlFile::key(std::int64_t record) const {
  return str(path_, ":", lines_[record].number);
}

}  // namespace tributary::data
