#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <regex>
#include <tuple>

#include "core/error.h"
#include "core/file/given_file.h"
#include "core/split_text.h"
#include "cost/calibrate/calibrate.h"

namespace tributary::cost {
namespace {

/// The number at the start of a field; null when there is none, or it is not above 0.
std::optional<double> positive(std::string_view field) {
  double number = 0;
  const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), number);
  if (error != std::errc() || end != field.data() + field.size()) return std::nullopt;
  if (!(number > 0) || !(number < 1e18)) return std::nullopt;
  return number;
}

struct SweepFile {
  std::int64_t ranks = 0;
  std::string path = {};
};

/// The N of a file named *_gpuN.csv.
std::int64_t ranks_of(const std::string& digits, const std::string& path) {
  constexpr std::int64_t kMaxRanks = 1 << 20;
  std::int64_t ranks = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), ranks);
  TRIB_REQUIRE(error == std::errc() && ranks >= 2 && ranks <= kMaxRanks,
               .what = "cost: sweep of a number of ranks that cannot be", .where = path,
               .found = digits, .expected = str("*_gpuN.csv with N of 2 to ", kMaxRanks),
               .fix = "rename the file, or take it out of the directory");
  return ranks;
}

/// The sweep files of a directory, ascending by ranks.
std::vector<SweepFile> find_sweeps(const std::string& directory) {
  std::error_code failed;
  std::vector<SweepFile> files;
  const std::regex name(".*_gpu([0-9]+)\\.csv");
  for (const auto& entry : std::filesystem::directory_iterator(directory, failed)) {
    std::smatch match;
    const std::string file = entry.path().filename().string();
    if (std::regex_match(file, match, name))
      files.push_back({ranks_of(match[1], entry.path().string()), entry.path().string()});
  }
  TRIB_REQUIRE(!files.empty(), .what = "cost: directory holds no sweep", .where = directory,
               .found = failed ? failed.message() : "no file of the name *_gpuN.csv",
               .expected = "all-reduce sweeps, one file for each number of GPUs",
               .fix = "give the directory that holds them, docs/formats/training_rows.md");
  std::sort(files.begin(), files.end(), [](const SweepFile& a, const SweepFile& b) {
    return std::tie(a.ranks, a.path) < std::tie(b.ranks, b.path);
  });
  return files;
}

}  // namespace

AllReduceSweep parse_all_reduce_sweep(std::string_view text, const std::string& source,
                                      std::int64_t ranks) {
  AllReduceSweep sweep{.source = source};
  std::int64_t number = 0;
  while (!text.empty()) {
    std::string_view line = take_until('\n', text);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (++number == 1 || line.empty()) continue;
    const std::vector<std::string_view> fields = split_at(',', line);
    const auto bytes = positive(fields[0]);
    const auto time = fields.size() >= 4 ? positive(fields[3]) : std::nullopt;
    TRIB_REQUIRE(bytes && time, .what = "cost: not a point of a sweep",
                 .where = str(source, ":", number), .found = escaped(line),
                 .expected = "bytes, count, type, time in ns; bytes and time above 0");
    const Bytes size{std::llround(*bytes)};
    TRIB_REQUIRE(sweep.points.empty() || sweep.points.back().bytes < size,
                 .what = "cost: sizes of a sweep do not ascend", .where = str(source, ":", number),
                 .found = str(size, " behind ", sweep.points.back().bytes),
                 .fix = "sort its lines by bytes, each size once");
    sweep.points.push_back({.ranks = ranks, .bytes = size, .time = {std::llround(*time)}});
  }
  TRIB_REQUIRE(!sweep.points.empty(), .what = "cost: file holds no rows", .where = source,
               .expected = "a header, then bytes, count, type, time in ns in each line",
               .fix = "measure it again, or take the file out of the directory");
  return sweep;
}

std::vector<AllReduceSweep> read_all_reduce_sweeps(const std::string& directory) {
  const std::vector<SweepFile> files = find_sweeps(directory);
  std::vector<AllReduceSweep> sweeps;
  for (std::size_t i = 0; i < files.size(); ++i) {
    const auto& [ranks, path] = files[i];
    TRIB_REQUIRE(i == 0 || files[i - 1].ranks != ranks,
                 .what = "cost: two sweeps of one number of ranks", .where = directory,
                 .found = str(files[i - 1].path, " and ", path), .expected = "one file for each N",
                 .fix = "take one of them out of the directory");
    const std::string text =
        read_given_file(path, kAnySize,
                        {.what = "cost: file cannot be read",
                         .expected = "a sweep, docs/formats/training_rows.md"});
    sweeps.push_back(parse_all_reduce_sweep(text, path, ranks));
  }
  return sweeps;
}

}  // namespace tributary::cost
