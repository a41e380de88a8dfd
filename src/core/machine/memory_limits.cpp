#include "core/machine/memory_limits.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <iomanip>
#include <limits>
#include <optional>
#include <sstream>
#include <sys/resource.h>
#include <unistd.h>

namespace tributary {
namespace {

namespace fs = std::filesystem;

/// The number in the first line `key number` or `key: number` of a file.
std::optional<std::int64_t> number_of(const fs::path& file, const std::string& key) {
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string name;
    std::int64_t number = 0;
    if (words >> name >> number && (name == key || name == key + ":")) return number;
  }
  return std::nullopt;
}

/// The number that is the only content of a file; null when the file says `max`.
std::optional<std::int64_t> number_in(const fs::path& file) {
  std::ifstream in(file);
  std::int64_t number = 0;
  return in >> number ? std::optional(number) : std::nullopt;
}

std::optional<MemoryLimit> free_memory(const MemoryFiles& files) {
  const fs::path file = fs::path(files.proc) / "meminfo";
  const auto available = number_of(file, "MemAvailable");
  if (!available) return std::nullopt;
  const std::int64_t swap = number_of(file, "SwapFree").value_or(0);
  return MemoryLimit{.name = "free memory of the machine", .left = {1024 * (*available + swap)}};
}

/// The files that tell how much a control group has left, including caches that can be dropped.
struct GroupFiles {
  const char* limit;
  const char* used;
  const char* caches;  // a key of memory.stat
};
constexpr GroupFiles kVersion2{"memory.max", "memory.current", "inactive_file"};
constexpr GroupFiles kVersion1{"memory.limit_in_bytes", "memory.usage_in_bytes",
                               "total_inactive_file"};

std::optional<std::int64_t> left_in(const fs::path& group, const GroupFiles& files) {
  const auto limit = number_in(group / files.limit);
  const auto used = number_in(group / files.used);
  // Version 1 writes a number near 2^63 where there is no limit.
  if (!limit || !used || *limit > std::numeric_limits<std::int64_t>::max() / 2) return std::nullopt;
  const std::int64_t caches = number_of(group / "memory.stat", files.caches).value_or(0);
  return std::max<std::int64_t>(0, *limit - *used + std::min(caches, *used));
}

/// Memory left in the control group of this process and its parents; the tightest one counts.
std::optional<MemoryLimit> group_memory(const MemoryFiles& files) {
  std::optional<std::int64_t> min;
  const auto look_at = [&](const fs::path& root, std::string path, const GroupFiles& names) {
    while (true) {
      const auto left = left_in(root / fs::path(path).relative_path(), names);
      if (left) min = std::min(*left, min.value_or(*left));
      if (path.empty() || path == "/") return;
      path = fs::path(path).parent_path().string();
    }
  };
  std::ifstream lines(fs::path(files.proc) / "self/cgroup");
  for (std::string line; std::getline(lines, line);) {  // `0::/a/b`, or `9:memory:/a/b`
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const std::string path = line.substr(second + 1);
    if (controllers == ",,") look_at(files.groups, path, kVersion2);
    if (controllers.find(",memory,") != std::string::npos)
      look_at(fs::path(files.groups) / "memory", path, kVersion1);
  }
  if (!min) return std::nullopt;
  return MemoryLimit{.name = "left of the limit of the control group", .left = {*min}};
}

std::optional<MemoryLimit> address_space(const MemoryFiles& files) {
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return std::nullopt;
  const std::int64_t pages = number_in(fs::path(files.proc) / "self/statm").value_or(0);
  const std::int64_t used = pages * sysconf(_SC_PAGESIZE);
  return MemoryLimit{
      .name = "left of ulimit -v",
      .left = {std::max<std::int64_t>(0, static_cast<std::int64_t>(limit.rlim_cur) - used)},
      .of_process = true};
}

}  // namespace

std::vector<MemoryLimit> list_memory_limits(const MemoryFiles& files) {
  std::vector<MemoryLimit> limits;
  for (auto& limit : {free_memory(files), group_memory(files), address_space(files)})
    if (limit) limits.push_back(*limit);
  return limits;
}

std::string describe_bytes(Bytes bytes) {
  constexpr std::array<const char*, 5> kUnits{"B", "KiB", "MiB", "GiB", "TiB"};
  auto number = static_cast<double>(bytes.count);
  std::size_t unit = 0;
  for (; number >= 1024 && unit + 1 < kUnits.size(); ++unit) number /= 1024;
  std::ostringstream text;
  text << std::fixed << std::setprecision(unit == 0 ? 0 : 1) << number << " " << kUnits[unit];
  return text.str();
}

}  // namespace tributary
