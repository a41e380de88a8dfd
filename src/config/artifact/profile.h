#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "config/artifact/cluster.h"
#include "config/artifact/module_graph.h"
#include "config/policies.h"
#include "core/units.h"

namespace tributary::config {

/// Times and bytes of one layer at one size; without its attention core where the table has that
/// apart.
struct ProfilePoint {
  Tokens tokens = {};  // or patches, in the packed microbatch
  Nanoseconds forward = {};
  Nanoseconds input_gradient = {};
  Nanoseconds weight_gradient = {};
  Nanoseconds recompute = {};
  Bytes activation = {};             // kept for backward
  Bytes activation_recomputed = {};  // kept when the layer runs again
  Bytes peak = {};                   // additional bytes while backward runs
  double spread = 0;                 // (max - min) / median of its runs

  friend bool operator==(const ProfilePoint&, const ProfilePoint&) = default;
};

/// Time of the attention core of one layer in a packed microbatch. An item attends with those of
/// its sequence, frame or window.
struct MeasuredAttention {
  double attended = 0;  // how many it attends with, mean over the items: sum(length^2) / items
  Tokens tokens = {};   // or patches, in the microbatch
  Nanoseconds forward = {};
  Nanoseconds gradient = {};
  double spread = 0;

  friend bool operator==(const MeasuredAttention&, const MeasuredAttention&) = default;
};

/// The measured grid of one layer kind of one module at one tp, dtype and share of the SMs.
struct ProfileTable {
  std::string module = {};
  std::string layer = {};  // `block`, `embedding`, `head`, ...: a name within the module
  Dtype dtype = Dtype::kBfloat16;
  std::int64_t tp = 1;
  std::int64_t ranks = 0;    // processes that worked at the same time; 0: unknown
  std::int64_t threads = 0;  // compute threads of each; 0: unknown
  std::int64_t share_percent = 100;
  std::int64_t sequence_tokens = 0;  // length of the measured sequences; 0: one as long as the pack
  Bytes parameters = {};
  Bytes adapters = {};                    // the part of `parameters` in adapters, if it has some
  std::vector<ProfilePoint> points = {};  // ascending by tokens
  // Ascending by attended, then tokens. Empty: the points hold attention, whatever the lengths.
  std::vector<MeasuredAttention> attention = {};

  friend bool operator==(const ProfileTable&, const ProfileTable&) = default;
};

enum class CollectiveOp { kAllReduce, kAllGather, kReduceScatter, kAllToAll, kBroadcast, kSend };

/// One point of a collective: ranks of the group, bytes of the full buffer, time.
struct MeasuredCollective {
  std::int64_t ranks = 2;
  Bytes bytes = {};
  Nanoseconds time = {};
  double spread = 0;

  friend bool operator==(const MeasuredCollective&, const MeasuredCollective&) = default;
};

struct CollectiveTable {
  CollectiveOp op = CollectiveOp::kAllReduce;
  std::vector<MeasuredCollective> points = {};  // ascending by ranks, bytes

  friend bool operator==(const CollectiveTable&, const CollectiveTable&) = default;
};

/// Measured time of whole microbatches of one size; the tables hold their layers one by one.
struct MeasuredPass {
  std::int64_t ranks = 1;  // processes that worked at the same time
  std::int64_t tp = 1;
  std::int64_t threads = 1;  // of each
  Tokens capacity = {};      // tokens that the microbatches were packed to
  Nanoseconds forward = {};  // of one microbatch, without waiting
  Nanoseconds backward = {};
  double spread = 0;

  friend bool operator==(const MeasuredPass&, const MeasuredPass&) = default;
};

/// Time that a rank spends in a step besides its passes, its gradient collectives and its messages.
struct MeasuredStep {
  std::int64_t ranks = 1;
  std::int64_t threads = 1;
  Nanoseconds step = {};        // once
  Nanoseconds microbatch = {};  // for each microbatch and stage: collating
  Nanoseconds optimizer = {};   // norm, clipping and update of `parameters` parameters
  std::int64_t parameters = 0;
  Bytes process = {};  // peak of the process, without tensors
  double spread = 0;

  friend bool operator==(const MeasuredStep&, const MeasuredStep&) = default;
};

/// Measured times and bytes of one model on one device kind: docs/formats/profile.md.
struct Profile {
  std::string model = {};
  std::string device = {};
  std::string libraries = {};   // versions that the times belong to
  std::string adapter = {};     // that the layers had: config::adapter_key; empty: none
  std::int64_t cores = 0;       // shared by ranks on a CPU; 0: every rank has a device
  Bytes memory = {};            // of the device, or of the machine; 0: unknown
  double flops_per_s = 0;       // fastest product measured; 0: not measured
  Nanoseconds launch = {};      // of an empty microbatch
  double noise = 0;             // median over all points of their spread
  double copy_bytes_per_s = 0;  // host to device; 0: not measured
  std::vector<ProfileTable> layers = {};
  std::vector<CollectiveTable> collectives = {};
  std::vector<MeasuredPass> passes = {};
  std::vector<MeasuredStep> steps = {};

  friend bool operator==(const Profile&, const Profile&) = default;
};

/// The digest at the end of a profile's `model`, which identifies it: the first 16 digits of the
/// SHA-256 of its config.json.
[[nodiscard]] std::string model_digest(std::string_view config_text);

inline constexpr std::string_view kProfileFormat = "tributary.profile/1";

/// errors: Fault::kInput that lists everything wrong by file and key path
[[nodiscard]] Profile parse_profile(std::string_view text, const std::string& where);
[[nodiscard]] Profile read_profile(const std::string& path);
[[nodiscard]] std::string write_profile(const Profile& profile);

}  // namespace tributary::config
