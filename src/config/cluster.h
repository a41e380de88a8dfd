#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/units.h"

namespace tributary::config {

/// What one device can do. Rates are what the maker states; shares and floors are measured.
struct DeviceModel {
  std::string name = {};
  double matrix_flops_per_s = 0;  // dense products in the training dtype
  double vector_flops_per_s = 0;
  double memory_bytes_per_s = 0;
  Bytes memory = {};
  Bytes reserve = {};            // kept free of the plan: max(2 GiB, 5 %) by default
  double matrix_share = 1;       // of matrix_flops_per_s that a large product reaches
  double attention_share = 1;    // the same, of the attention core
  double memory_share = 1;       // of memory_bytes_per_s that element-wise kernels reach
  double matrix_ramp_flops = 0;  // work per product at which half of matrix_share is reached
  double launch_s = 0;           // host time per kernel; a pass is never faster than its launches
  double overlap_slowdown = 1;   // of compute beside a collective

  friend bool operator==(const DeviceModel&, const DeviceModel&) = default;
};

/// One point of a measured collective: ranks of the group, bytes of the full buffer, time.
struct CollectivePoint {
  std::int64_t ranks = 2;
  Bytes bytes = {};
  Nanoseconds time = {};

  friend bool operator==(const CollectivePoint&, const CollectivePoint&) = default;
};

/// The links that join `ranks` neighbours: inside a node, between nodes, between racks.
/// All-reduce of S bytes over n ranks: a + 2(n-1) h + 2(n-1)/n S (s + t/(n-1)).
struct LinkLevel {
  std::string name = {};
  std::int64_t ranks = 1;       // devices that this level joins, those of the levels inside too
  double bytes_per_s = 0;       // of one device and direction
  double start_s = 0;           // a: once per collective
  double hop_s = 0;             // h: per step of a ring
  double seconds_per_byte = 0;  // s: of the busiest link in a large group
  double seconds_per_byte_pair = 0;                    // t: what small groups take more
  double message_start_s = 0;                          // of one point-to-point message
  std::vector<CollectivePoint> small_all_reduce = {};  // ascending by ranks, bytes

  friend bool operator==(const LinkLevel&, const LinkLevel&) = default;
};

/// Devices and links: docs/formats/cluster.md.
struct Cluster {
  std::string name = {};
  std::int64_t devices = 1;
  std::int64_t devices_per_node = 1;
  DeviceModel device = {};
  std::vector<LinkLevel> levels = {};  // innermost first; the last one joins all devices

  friend bool operator==(const Cluster&, const Cluster&) = default;
};

inline constexpr std::string_view kClusterFormat = "tributary.cluster/1";

/// YAML, or JSON, which is YAML.
///
/// errors: Fault::kInput that lists everything wrong by file and key path
[[nodiscard]] Cluster parse_cluster(std::string_view text, const std::string& where);
[[nodiscard]] Cluster read_cluster(const std::string& path);

/// YAML that reads back to the same cluster.
[[nodiscard]] std::string write_cluster(const Cluster& cluster);

}  // namespace tributary::config
