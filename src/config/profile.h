#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "config/cluster.h"
#include "config/module_graph.h"
#include "config/run_config.h"

namespace tributary::config {

/// What one pass of a layer took at one size.
struct ProfilePoint {
  Tokens tokens = {};  // or patches, of the packed microbatch
  Nanoseconds forward = {};
  Nanoseconds input_gradient = {};
  Nanoseconds weight_gradient = {};
  Nanoseconds recompute = {};
  Bytes activation = {};             // kept for backward
  Bytes activation_recomputed = {};  // kept when the layer runs again

  friend bool operator==(const ProfilePoint&, const ProfilePoint&) = default;
};

/// The measured grid of one layer kind of one module at one tp, dtype and share of the SMs.
struct ProfileTable {
  std::string module = {};
  std::string layer = {};  // `block`, `embedding`, `head`, ...: a name within the module
  Dtype dtype = Dtype::kBfloat16;
  std::int64_t tp = 1;
  std::int64_t share_percent = 100;
  std::int64_t sequence_tokens = 0;  // length of the sequences measured; 0: one as long as the pack
  Bytes parameters = {};
  std::vector<ProfilePoint> points = {};  // ascending by tokens

  friend bool operator==(const ProfileTable&, const ProfileTable&) = default;
};

enum class CollectiveOp { kAllReduce, kAllGather, kReduceScatter, kAllToAll, kBroadcast, kSend };

struct CollectiveTable {
  CollectiveOp op = CollectiveOp::kAllReduce;
  std::vector<CollectivePoint> points = {};  // ascending by ranks, bytes

  friend bool operator==(const CollectiveTable&, const CollectiveTable&) = default;
};

/// Measured times and bytes of one model on one device kind: docs/formats/profile.md.
struct Profile {
  std::string model = {};
  std::string device = {};
  std::string libraries = {};   // versions that the times belong to
  Nanoseconds launch = {};      // of an empty microbatch
  double noise = 0;             // median of (largest - least) / median over the runs of a point
  double copy_bytes_per_s = 0;  // host to device; 0: not measured
  std::vector<ProfileTable> layers = {};
  std::vector<CollectiveTable> collectives = {};

  friend bool operator==(const Profile&, const Profile&) = default;
};

inline constexpr std::string_view kProfileFormat = "tributary.profile/1";

/// errors: Fault::kInput that lists everything wrong by file and key path
[[nodiscard]] Profile parse_profile(std::string_view text, const std::string& where);
[[nodiscard]] Profile read_profile(const std::string& path);
[[nodiscard]] std::string write_profile(const Profile& profile);

}  // namespace tributary::config
