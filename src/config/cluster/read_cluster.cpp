#include <algorithm>
#include <nlohmann/json.hpp>
#include <tuple>

#include "config/cluster/cluster_keys.h"
#include "config/reading/artifact_object.h"
#include "config/reading/yaml_json.h"

namespace tributary::config {
namespace {

constexpr WholeRange kBytes{0, std::int64_t{1} << 60};
constexpr WholeRange kRanks{1, std::int64_t{1} << 24};

template <class Struct>
void read_constants(ArtifactObject& json, std::span<const ConstantKey<Struct>> keys,
                    Struct& constants) {
  for (const ConstantKey<Struct>& key : keys) {
    const std::optional<double> standard =
        key.required ? std::nullopt : std::optional(constants.*key.field);
    constants.*key.field = json.number(key.name, standard, key.least, key.most);
  }
}

DeviceModel read_device(ArtifactObject json) {
  DeviceModel device{.name = json.text("name", std::nullopt)};
  read_constants(json, device_keys(), device);
  device.memory = {json.whole("memory_bytes", std::nullopt, {1, kBytes.most})};
  const std::int64_t least_reserve = std::max(std::int64_t{2} << 30, device.memory.count / 20);
  device.reserve = {
      json.whole("reserve_bytes", std::min(least_reserve, device.memory.count / 2), kBytes)};
  json.refuse_unknown();
  return device;
}

CollectivePoint read_point(ArtifactObject json) {
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
  read_constants(json, level_keys(), level);
  for (ArtifactObject& point : json.items("small_all_reduce"))
    level.small_all_reduce.push_back(read_point(std::move(point)));
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

}  // namespace

void check_cluster(const Cluster& cluster, const std::string& where) {
  Problems problems;
  const auto check = [&](const auto& keys, const auto& constants, const std::string& path) {
    for (const auto& key : keys) {
      const double value = constants.*key.field;
      if (value >= key.least && value <= key.most) continue;
      problems.add({.what = "config: value cannot be used",
                    .where = str(where, " ", path, key.name),
                    .found = str(value),
                    .expected = str("a number from ", key.least, " to ", key.most)});
    }
  };
  check(device_keys(), cluster.device, "device.");
  for (std::size_t i = 0; i < cluster.levels.size(); ++i)
    check(level_keys(), cluster.levels[i], str("levels.", i, "."));
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

}  // namespace tributary::config
