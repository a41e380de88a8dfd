#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/units.h"

namespace tributary::config {

/// What one device can do. Rates are what the maker states; shares and host times are measured.
/// Each key of a cluster file is explained in docs/formats/cluster.md, each value of a fitted one
/// in docs/guides/cost_model.md.
struct DeviceModel {
  std::string name = {};
  double matrix_flops_per_s = 0;  // dense products in the training dtype
  double memory_bytes_per_s = 0;
  Bytes memory = {};
  Bytes reserve = {};                // kept free of any plan
  double matrix_share = 0.8;         // fraction of matrix_flops_per_s that a large product reaches
  double matrix_ramp_flops = 1.5e9;  // work per product at which half of that is reached
  double misaligned_share = 0.4;   // fraction of matrix_share for widths that are no multiple of 8
  double attention_share = 0.6;    // fraction of matrix_flops_per_s that fused attention reaches
  double memory_share = 0.7;       // fraction of memory_bytes_per_s that element-wise kernels reach
  double cache_bytes_per_s = 0;    // of the cache in front of the memory, for all SMs together;
                                   // 0: a slice of the device gets its share of the memory's
  double launch_s = 4e-6;          // host time per kernel
  double launch_blend = 2;         // exponent of the smooth maximum of host and device time
  double microbatch_s = 0;         // host time per microbatch that nothing hides
  double logit_bytes = 30;         // memory traffic of the loss per logit, forward and backward
  double overlap_slowdown = 1.13;  // factor on compute while a collective runs

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
///
/// All-reduce of S bytes over n ranks of one level is the faster of two protocols:
/// start_s + 2(n-1) hop_s + V, and
/// low_latency_start_s + 2(n-1) low_latency_hop_s + low_latency_slowdown V, where
/// V = 2(n-1)/n S (seconds_per_byte + seconds_per_byte_pair / (n-1)).
struct LinkLevel {
  std::string name = {};
  std::int64_t ranks = 1;          // devices that this level joins, with those of the levels inside
  double bytes_per_s = 0;          // of one device and direction: messages, and all levels but the
                                   // innermost
  double message_start_s = 0;      // of one message
  double start_s = 0;              // of one collective
  double hop_s = 0;                // of each step of a ring
  double low_latency_start_s = 0;  // 0: there is no such protocol
  double low_latency_hop_s = 0;
  double low_latency_slowdown = 1;
  double seconds_per_byte = 0;       // of the bus, in a large group; 0: 1 / bytes_per_s
  double seconds_per_byte_pair = 0;  // additional in small groups
  std::vector<CollectivePoint> small_all_reduce = {};  // measured; ascending by ranks, then bytes

  friend bool operator==(const LinkLevel&, const LinkLevel&) = default;
};

/// Devices and links: docs/formats/cluster.md.
struct Cluster {
  std::string name = {};
  std::string origin = {};  // where its constants come from
  std::int64_t devices = 1;
  std::int64_t cores = 0;  // of a node, shared by its computing ranks; 0: each device computes on
                           // its own
  DeviceModel device = {};
  double exposed_message_share = 0;    // of messages between stages of a full pipeline
  std::vector<LinkLevel> levels = {};  // innermost first; the last one joins all devices

  /// Devices of the innermost level.
  [[nodiscard]] std::int64_t devices_per_node() const {
    return levels.empty() ? 1 : levels.front().ranks;
  }
  friend bool operator==(const Cluster&, const Cluster&) = default;
};

inline constexpr std::string_view kClusterFormat = "tributary.cluster/1";

/// YAML, or JSON, which is YAML.
///
/// errors: Fault::kInput that lists everything wrong by file and key path
[[nodiscard]] Cluster parse_cluster(std::string_view text, const std::string& where);
[[nodiscard]] Cluster read_cluster(const std::string& path);

/// YAML that reads back to the same cluster, each constant with its unit.
[[nodiscard]] std::string write_cluster(const Cluster& cluster);

/// Checks the rules between keys, for clusters that did not come from a file.
void check_cluster(const Cluster& cluster, const std::string& where);

}  // namespace tributary::config
