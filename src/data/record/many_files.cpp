#include "data/record/many_files.h"

#define XXH_INLINE_ALL
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <glob.h>
#include <iomanip>
#include <sstream>
#include <xxhash.h>

#include "core/error.h"
#include "core/file/given_file.h"
#include "data/record/stored_file.h"
#include "data/record/stored_record.h"

namespace tributary::data {
namespace {

constexpr std::int64_t kMaxFiles = 1'000'000;

[[noreturn]] void refuse_range(const std::string& pattern) {
  TRIB_RAISE(Fault::kInput, .what = "data: range of files is not understood", .where = pattern,
             .expected = "a first and a last number of the same length, as in {000..099}");
}

/// Writes out the first range of a pattern: a{08..10} -> a08, a09, a10.
std::vector<std::string> expand_range(const std::string& pattern) {
  const std::size_t open = pattern.find('{');
  if (open == std::string::npos) return {pattern};
  const std::size_t dots = pattern.find("..", open);
  const std::size_t close = pattern.find('}', open);
  if (dots == std::string::npos || close == std::string::npos || dots > close)
    refuse_range(pattern);
  const std::string first = pattern.substr(open + 1, dots - open - 1);
  const std::string last = pattern.substr(dots + 2, close - dots - 2);
  const auto is_number = [](const std::string& text) {
    return !text.empty() && text.size() <= 9 &&
           text.find_first_not_of("0123456789") == std::string::npos;
  };
  if (!is_number(first) || !is_number(last) || first.size() != last.size()) refuse_range(pattern);
  std::vector<std::string> names;
  for (std::int64_t i = std::stoll(first); i <= std::stoll(last); ++i) {
    std::ostringstream number;
    number << std::setw(static_cast<int>(first.size())) << std::setfill('0') << i;
    const std::string name = pattern.substr(0, open) + number.str() + pattern.substr(close + 1);
    for (std::string& each : expand_range(name)) names.push_back(std::move(each));
    TRIB_REQUIRE(std::ssize(names) <= kMaxFiles, .what = "data: range of too many files",
                 .where = pattern, .expected = str("at most ", kMaxFiles));
  }
  return names;
}

/// The files that a name with stars stands for, sorted. A name without a star stands for itself.
std::vector<std::string> expand_stars(const std::string& pattern) {
  if (pattern.find('*') == std::string::npos) return {pattern};
  glob_t found{};
  const int status = glob(pattern.c_str(), GLOB_ERR, nullptr, &found);
  std::vector<std::string> paths(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  globfree(&found);
  TRIB_REQUIRE(status == 0, .what = "data: no file of the pattern", .where = shown_path(pattern),
               .found = status == GLOB_NOMATCH ? "nothing" : std::strerror(errno),
               .fix =
                   "correct the path of the source; relative paths start from the directory "
                   "where `tributary` is started");
  return paths;
}

}  // namespace

ManyFiles::ManyFiles(std::string path, std::vector<std::unique_ptr<RecordFile>> files)
    : path_(std::move(path)), files_(std::move(files)) {
  TRIB_CHECK(!files_.empty(), .what = "data: no file", .where = path_);
  std::string digests;
  for (const auto& file : files_) {
    begins_.push_back(begins_.back() + file->records());
    digests += file->digest();
  }
  digest_ = digits_of(XXH3_64bits(digests.data(), digests.size()));
}

ManyFiles::Place ManyFiles::at(std::int64_t record) const {
  TRIB_CHECK(record >= 0 && record < records(), .what = "data: record outside the files",
             .where = path_, .found = str(record), .expected = str("below ", records()));
  const auto after = std::ranges::upper_bound(begins_, record);
  const auto file = static_cast<std::size_t>(after - begins_.begin()) - 1;
  return {*files_[file], record - begins_[file]};
}

Result<StoredRecord> ManyFiles::read(std::int64_t record) const {
  const Place place = at(record);
  return place.file.read(place.record);
}
std::string ManyFiles::key(std::int64_t record) const {
  const Place place = at(record);
  return place.file.key(place.record);
}
std::int64_t ManyFiles::offset(std::int64_t record) const {
  const Place place = at(record);
  return place.file.offset(place.record);
}
std::string ManyFiles::beginning_of(std::int64_t record) const {
  const Place place = at(record);
  return place.file.beginning_of(place.record);
}

std::int64_t ManyFiles::bytes() const {
  std::int64_t sum = 0;
  for (const auto& file : files_) sum += file->bytes();
  return sum;
}
std::int64_t ManyFiles::blank_lines() const {
  std::int64_t sum = 0;
  for (const auto& file : files_) sum += file->blank_lines();
  return sum;
}

bool is_pattern(const std::string& path) { return path.find_first_of("*{") != std::string::npos; }

std::vector<std::string> list_paths(const std::string& pattern) {
  std::vector<std::string> paths;
  for (const std::string& name : expand_range(pattern))
    for (std::string& path : expand_stars(name)) paths.push_back(std::move(path));
  TRIB_REQUIRE(!paths.empty(), .what = "data: range without a number", .where = pattern,
               .expected = "a last number that is not below the first");
  return paths;
}

}  // namespace tributary::data
