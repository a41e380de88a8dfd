#include "config/artifact/cluster.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <tuple>

#include "config/reading/artifact_object.h"
#include "config/reading/yaml_json.h"

namespace tributary::config {
namespace {

/// One constant of a cluster file. The reader and the writer walk the tables below.
template <class Struct>
struct ConstantKey {
  const char* name;
  double Struct::*field;
  double min;  // range, its ends too
  double max;
  bool required;
  const char* unit;  // and meaning, as the written file says it
};

constexpr double kMaxRate = 1e19;
// No device is below this rate: the value was written in TFLOP/s or GB/s.
constexpr double kMinRate = 1e6;
constexpr double kMinLinkRate = 1e5;
constexpr double kMaxSeconds = 1e3;

constexpr ConstantKey<DeviceModel> kDeviceKeys[]{
    {"matrix_flops_per_s", &DeviceModel::matrix_flops_per_s, kMinRate, kMaxRate, true,
     "FLOP/s, dense products in the training dtype, by the maker"},
    {"memory_bytes_per_s", &DeviceModel::memory_bytes_per_s, kMinRate, kMaxRate, true,
     "B/s, by the maker"},
    {"matrix_share", &DeviceModel::matrix_share, 1e-3, 1, false,
     "of matrix_flops_per_s that a large product reaches"},
    {"matrix_ramp_flops", &DeviceModel::matrix_ramp_flops, 0, 1e13, false,
     "FLOP, a product of this size reaches half of that"},
    {"misaligned_share", &DeviceModel::misaligned_share, 1e-2, 1, false,
     "of matrix_share, where a width is no multiple of 8"},
    {"attention_share", &DeviceModel::attention_share, 1e-3, 1, false,
     "of matrix_flops_per_s that a fused attention core reaches"},
    {"memory_share", &DeviceModel::memory_share, 1e-3, 1, false,
     "of memory_bytes_per_s that element-wise kernels reach"},
    {"cache_bytes_per_s", &DeviceModel::cache_bytes_per_s, 0, kMaxRate, false,
     "B/s, all units together from the cache; 0: a part has its part of the memory"},
    {"launch_s", &DeviceModel::launch_s, 0, 1, false, "s, host time per kernel"},
    {"launch_blend", &DeviceModel::launch_blend, 1, 64, false,
     "exponent of the smooth maximum of host and device time"},
    {"microbatch_s", &DeviceModel::microbatch_s, 0, kMaxSeconds, false,
     "s, host time per microbatch that nothing hides"},
    {"logit_bytes", &DeviceModel::logit_bytes, 0, 1e4, false,
     "B, memory traffic of the loss per logit"},
    {"overlap_slowdown", &DeviceModel::overlap_slowdown, 1, 10, false,
     "of compute beside a collective"},
};

constexpr ConstantKey<LinkLevel> kLevelKeys[]{
    {"bytes_per_s", &LinkLevel::bytes_per_s, kMinLinkRate, kMaxRate, true,
     "B/s, one device and direction"},
    {"message_start_s", &LinkLevel::message_start_s, 0, kMaxSeconds, false, "s, of one message"},
    {"start_s", &LinkLevel::start_s, 0, kMaxSeconds, false, "s, of one collective"},
    {"hop_s", &LinkLevel::hop_s, 0, kMaxSeconds, false, "s, of each step of a ring"},
    {"low_latency_start_s", &LinkLevel::low_latency_start_s, 0, kMaxSeconds, false,
     "s, of a collective of few bytes; 0: no such protocol"},
    {"low_latency_hop_s", &LinkLevel::low_latency_hop_s, 0, kMaxSeconds, false,
     "s, of each step of its ring"},
    {"low_latency_slowdown", &LinkLevel::low_latency_slowdown, 1, 10, false,
     "of its bytes against the other protocol"},
    {"seconds_per_byte", &LinkLevel::seconds_per_byte, 0, 1, false,
     "s/B, of the bus in a large group; 0: 1 / bytes_per_s"},
    {"seconds_per_byte_pair", &LinkLevel::seconds_per_byte_pair, 0, 1, false,
     "s/B, what a group of n takes more, times n-1"},
};

constexpr WholeRange kBytes{0, std::int64_t{1} << 60};
constexpr WholeRange kRanks{1, std::int64_t{1} << 24};

template <class Keys, class Struct>
void read_constants(ArtifactObject& json, const Keys& keys, Struct& constants) {
  for (const ConstantKey<Struct>& key : keys) {
    const std::optional<double> standard =
        key.required ? std::nullopt : std::optional(constants.*key.field);
    constants.*key.field = json.number(key.name, standard, key.min, key.max);
  }
}

DeviceModel read_device(ArtifactObject json) {
  DeviceModel device{.name = json.text("name", std::nullopt)};
  read_constants(json, kDeviceKeys, device);
  device.memory = {json.whole("memory_bytes", std::nullopt, {1, kBytes.max})};
  const std::int64_t min_reserve = std::max(std::int64_t{2} << 30, device.memory.count / 20);
  device.reserve = {
      json.whole("reserve_bytes", std::min(min_reserve, device.memory.count / 2), kBytes)};
  json.refuse_unknown();
  return device;
}

CollectivePoint read_collective_point(ArtifactObject json) {
  CollectivePoint point;
  point.ranks = json.whole("ranks", std::nullopt, kRanks);
  point.bytes = {json.whole("bytes", std::nullopt, kBytes)};
  point.time = {json.whole("ns", std::nullopt, {1, std::int64_t{1} << 60})};
  json.refuse_unknown();
  return point;
}

LinkLevel read_level(ArtifactObject json) {
  LinkLevel level{.name = json.text("name", std::nullopt)};
  level.ranks = json.whole("ranks", std::nullopt, kRanks);
  read_constants(json, kLevelKeys, level);
  for (ArtifactObject& point : json.items("small_all_reduce"))
    level.small_all_reduce.push_back(read_collective_point(std::move(point)));
  json.refuse_unknown();
  return level;
}

void check_levels(const Cluster& cluster, const std::string& where, Problems& problems) {
  if (cluster.levels.empty()) {
    problems.add({.what = "config: cluster has no links",
                  .where = where + " levels",
                  .expected = "one level at least, the innermost first"});
    return;
  }
  std::int64_t inside = 1;
  for (std::size_t i = 0; i < cluster.levels.size(); ++i) {
    const LinkLevel& level = cluster.levels[i];
    if (level.ranks < inside || level.ranks % inside != 0)
      problems.add({.what = "config: level is not a whole number of the levels inside it",
                    .where = str(where, " levels.", i, ".ranks"),
                    .found = str(level.ranks),
                    .expected = str("a multiple of ", inside)});
    inside = std::max<std::int64_t>(level.ranks, 1);
    const auto key = [](const CollectivePoint& point) {
      return std::tuple(point.ranks, point.bytes);
    };
    for (std::size_t k = 1; k < level.small_all_reduce.size(); ++k) {
      if (key(level.small_all_reduce[k - 1]) < key(level.small_all_reduce[k])) continue;
      problems.add({.what = "config: points do not ascend by ranks, then bytes",
                    .where = str(where, " levels.", i, ".small_all_reduce.", k)});
    }
  }
  if (cluster.levels.back().ranks < cluster.devices)
    problems.add({.what = "config: outermost level does not join all devices",
                  .where = where + " devices",
                  .found = str(cluster.devices),
                  .expected = str("at most ", cluster.levels.back().ranks)});
}

void check_memory(const DeviceModel& device, const std::string& where, Problems& problems) {
  if (device.reserve >= device.memory)
    problems.add({.what = "config: device keeps all its memory free of plans",
                  .where = where + " device.reserve_bytes",
                  .found = str(device.reserve),
                  .expected = str("below memory_bytes, ", device.memory)});
  const double kernels = device.memory_bytes_per_s * device.memory_share;
  if (device.cache_bytes_per_s > 0 && device.cache_bytes_per_s < kernels)
    problems.add({.what = "config: cache is slower than the memory behind it",
                  .where = where + " device.cache_bytes_per_s",
                  .found = str(device.cache_bytes_per_s),
                  .expected = str("0, or at least memory_bytes_per_s * memory_share, ", kernels)});
}

/// The shortest text that reads back to the same number.
std::string write_number(double value) {
  char text[64];
  const auto [end, error] = std::to_chars(text, text + sizeof(text), value);
  return std::string(text, end);
}

std::string quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

template <class Keys, class Struct>
std::string write_constants(const Keys& keys, const Struct& constants, const std::string& indent) {
  std::string text;
  for (const ConstantKey<Struct>& key : keys)
    text += str(indent, key.name, ": ", write_number(constants.*key.field), "  # ", key.unit, "\n");
  return text;
}

std::string write_level(const LinkLevel& level) {
  std::string text = str("  - name: ", quoted(level.name), "\n    ranks: ", level.ranks,
                         "  # devices that the level joins\n");
  text += write_constants(kLevelKeys, level, "    ");
  if (level.small_all_reduce.empty()) return text;
  text += "    small_all_reduce:  # measured; B of the full buffer\n";
  for (const CollectivePoint& point : level.small_all_reduce)
    text += str("      - {ranks: ", point.ranks, ", bytes: ", point.bytes.count,
                ", ns: ", point.time.count, "}\n");
  return text;
}

}  // namespace

void check_cluster(const Cluster& cluster, const std::string& where) {
  Problems problems;
  const auto check = [&](const auto& keys, const auto& constants, const std::string& path) {
    for (const auto& key : keys) {
      const double value = constants.*key.field;
      if (value >= key.min && value <= key.max) continue;
      problems.add({.what = "config: value cannot be used",
                    .where = str(where, " ", path, key.name),
                    .found = str(value),
                    .expected = str("a number from ", key.min, " to ", key.max)});
    }
  };
  check(kDeviceKeys, cluster.device, "device.");
  for (std::size_t i = 0; i < cluster.levels.size(); ++i)
    check(kLevelKeys, cluster.levels[i], str("levels.", i, "."));
  check_memory(cluster.device, where, problems);
  check_levels(cluster, where, problems);
  problems.raise_if_any(where);
}

Cluster parse_cluster(std::string_view text, const std::string& where) {
  const Json json = parse_yaml_as_json(text, where);
  Problems problems;
  ArtifactObject root(json, where, "", problems);
  problems.raise_if_any(where);
  const std::string format = root.text("format", "");
  TRIB_REQUIRE(format == kClusterFormat, .what = "config: not a cluster of this version",
               .where = root.where("format"), .found = escaped(format),
               .expected = std::string(kClusterFormat));
  Cluster cluster{.name = root.text("name", ""), .origin = root.text("origin", "")};
  cluster.devices = root.whole("devices", std::nullopt, kRanks);
  cluster.cores = root.whole("cores", 0, {0, 1 << 24});
  cluster.device = read_device(root.object("device", true));
  cluster.exposed_message_share = root.number("exposed_message_share", 0.0, 0, 1);
  for (ArtifactObject& level : root.items("levels"))
    cluster.levels.push_back(read_level(std::move(level)));
  root.refuse_unknown();
  check_memory(cluster.device, where, problems);
  check_levels(cluster, where, problems);
  problems.raise_if_any(where);
  return cluster;
}

Cluster read_cluster(const std::string& path) {
  return parse_cluster(read_artifact(path, "a cluster, docs/formats/cluster.md"), path);
}

std::string write_cluster(const Cluster& cluster) {
  std::string text =
      str("format: ", kClusterFormat, "\nname: ", quoted(cluster.name),
          "\norigin: ", quoted(cluster.origin), "\ndevices: ", cluster.devices,
          "\ncores: ", cluster.cores,
          "  # of a node, shared by its ranks; 0: each has its own\ndevice:\n  name: ",
          quoted(cluster.device.name), "\n");
  text += str("  memory_bytes: ", cluster.device.memory.count, "  # B\n");
  text += str("  reserve_bytes: ", cluster.device.reserve.count, "  # B, kept free of any plan\n");
  text += write_constants(kDeviceKeys, cluster.device, "  ");
  text += str("exposed_message_share: ", write_number(cluster.exposed_message_share),
              "  # of messages between stages, in a full pipeline\nlevels:\n");
  for (const LinkLevel& level : cluster.levels) text += write_level(level);
  return text;
}

}  // namespace tributary::config
