#include <charconv>
#include <nlohmann/json.hpp>

#include "config/cluster/cluster_keys.h"
#include "core/text.h"

namespace tributary::config {
namespace {

/// The shortest text that reads back to the same number.
std::string write_number(double value) {
  char text[64];
  const auto [end, error] = std::to_chars(text, text + sizeof(text), value);
  return std::string(text, end);
}

std::string quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

template <class Struct>
std::string write_constants(std::span<const ConstantKey<Struct>> keys, const Struct& constants,
                            const std::string& indent) {
  std::string text;
  for (const ConstantKey<Struct>& key : keys)
    text += str(indent, key.name, ": ", write_number(constants.*key.field), "  # ", key.unit, "\n");
  return text;
}

std::string write_level(const LinkLevel& level) {
  std::string text = str("  - name: ", quoted(level.name), "\n    ranks: ", level.ranks,
                         "  # devices that the level joins\n");
  text += write_constants(level_keys(), level, "    ");
  if (level.small_all_reduce.empty()) return text;
  text += "    small_all_reduce:  # measured; B of the full buffer\n";
  for (const CollectivePoint& point : level.small_all_reduce)
    text += str("      - {ranks: ", point.ranks, ", bytes: ", point.bytes.count,
                ", ns: ", point.time.count, "}\n");
  return text;
}

}  // namespace

std::string write_cluster(const Cluster& cluster) {
  std::string text =
      str("format: ", kClusterFormat, "\nname: ", quoted(cluster.name),
          "\norigin: ", quoted(cluster.origin), "\ndevices: ", cluster.devices,
          "\ncores: ", cluster.cores,
          "  # of a node, shared by its ranks; 0: each has its own\ndevice:\n  name: ",
          quoted(cluster.device.name), "\n");
  text += str("  memory_bytes: ", cluster.device.memory.count, "  # B\n");
  text += str("  reserve_bytes: ", cluster.device.reserve.count, "  # B, kept free of any plan\n");
  text += write_constants(device_keys(), cluster.device, "  ");
  text += str("exposed_message_share: ", write_number(cluster.exposed_message_share),
              "  # of messages between stages, in a full pipeline\nlevels:\n");
  for (const LinkLevel& level : cluster.levels) text += write_level(level);
  return text;
}

}  // namespace tributary::config
