#include "cost/collective_cost.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"

namespace tributary::cost {
namespace {

using config::Cluster;
using config::CollectiveOp;
using config::CollectivePoint;
using config::LinkLevel;

double bus_seconds_per_byte(const LinkLevel& level, double ranks) {
  if (level.seconds_per_byte == 0) return 1 / level.bytes_per_s;
  return level.seconds_per_byte + level.seconds_per_byte_pair / (ranks - 1);
}

/// Reduce-scatter and all-gather are the two halves of a ring all-reduce.
double half_ring(const LinkLevel& level, std::int64_t ranks, double bytes) {
  return all_reduce_seconds(level, ranks, bytes) / 2;
}

struct Choice {
  double seconds = 0;
  Algorithm algorithm = Algorithm::kRing;

  void offer(double other, Algorithm by) {
    if (other < seconds) *this = {other, by};
  }
};

/// Between the measured sizes of a group it interpolates linearly in bytes; outside of them it uses
/// the formula. More bytes never take less time: a point below its predecessor counts as equal to
/// it, and the formula is capped by the first point and raised to the last.
Choice all_reduce_inside(const LinkLevel& level, std::int64_t ranks, double bytes) {
  const double formula = all_reduce_seconds(level, ranks, bytes);
  double before_bytes = 0;
  double before = 0;
  for (const CollectivePoint& point : level.small_all_reduce) {
    if (point.ranks != ranks) continue;
    const auto at = static_cast<double>(point.bytes.count);
    const double time = std::max(before, seconds_of(point.time));
    if (bytes < at && before_bytes == 0) return {std::min(formula, time), Algorithm::kRing};
    if (bytes <= at)
      return {before + (time - before) * (bytes - before_bytes) / (at - before_bytes),
              Algorithm::kTable};
    before_bytes = at;
    before = time;
  }
  return {std::max(formula, before), Algorithm::kRing};
}

Choice inside_node(const LinkLevel& level, CollectiveOp op, std::int64_t ranks, double bytes) {
  switch (op) {
    case CollectiveOp::kAllReduce:
      return all_reduce_inside(level, ranks, bytes);
    case CollectiveOp::kAllGather:
    case CollectiveOp::kReduceScatter:
    case CollectiveOp::kAllToAll:
      return {half_ring(level, ranks, bytes), Algorithm::kRing};
    case CollectiveOp::kBroadcast:
    case CollectiveOp::kSend:
      return {level.message_start_s + bytes / level.bytes_per_s, Algorithm::kRing};
  }
  TRIB_RAISE(Fault::kBug, .what = "cost: collective without a cost");
}

/// The level that joins nodes: every device has a link, and a group has several devices of a node.
struct AcrossNodes {
  const LinkLevel& inner;
  const LinkLevel& level;
  double ranks, per_node, nodes;

  /// What enters or leaves a node through its devices' links also crosses the bus inside the node.
  [[nodiscard]] double seconds_per_byte(double links) const {
    const double outside = 1 / (level.bytes_per_s * links);
    return per_node > 1 ? std::max(outside, bus_seconds_per_byte(inner, per_node)) : outside;
  }
  [[nodiscard]] double ring(double share_of_all_reduce, double bytes) const {
    const double volume = 2 * (ranks - 1) / ranks * bytes * seconds_per_byte(per_node);
    return share_of_all_reduce * (level.start_s + 2 * (ranks - 1) * level.hop_s + volume);
  }
  [[nodiscard]] double tree(double bytes) const {
    return level.start_s +
           2 * std::log2(std::max(nodes, 2.0)) * std::max(level.hop_s, level.message_start_s) +
           2 * bytes * seconds_per_byte(per_node);
  }
  /// All-reduce of each device's shard with its peers of the other nodes.
  [[nodiscard]] double rails(double share_of_all_reduce, double bytes) const {
    const double volume = 2 * (nodes - 1) / nodes * bytes / per_node / level.bytes_per_s;
    return share_of_all_reduce * (level.start_s + 2 * (nodes - 1) * level.hop_s + volume);
  }
  /// A device first sends to the others of its node, then to those of other nodes.
  [[nodiscard]] double all_to_all(double bytes) const {
    const double part = bytes / ranks;
    const double inside =
        per_node > 1 ? (per_node - 1) * part * bus_seconds_per_byte(inner, per_node) : 0;
    return level.start_s + (ranks - 1) * level.hop_s + inside +
           (ranks - per_node) * part * seconds_per_byte(/*links=*/1);
  }
};

/// The devices of a node exchange as much among themselves as without other nodes, so no algorithm
/// is faster than `inside`, although links between nodes may start sooner.
Choice reduce_or_gather(const AcrossNodes& across, CollectiveOp op, double inside, double bytes) {
  const double share = op == CollectiveOp::kAllReduce ? 1 : 0.5;
  Choice best{across.ring(share, bytes), Algorithm::kRing};
  if (op == CollectiveOp::kAllReduce) best.offer(across.tree(bytes), Algorithm::kTree);
  if (across.per_node > 1)
    best.offer(inside + across.rails(share, bytes), Algorithm::kHierarchical);
  return {std::max(best.seconds, inside), best.algorithm};
}

const LinkLevel& level_of(const Cluster& cluster, const CommunicationGroup& group) {
  if (group.level > 0) return cluster.levels[std::min(group.level, cluster.levels.size() - 1)];
  const std::int64_t nodes = (group.ranks + group.ranks_per_node - 1) / group.ranks_per_node;
  for (const LinkLevel& each : cluster.levels)
    if (each.ranks >= cluster.devices_per_node() * nodes) return each;
  return cluster.levels.back();
}

Choice across_nodes(const Cluster& cluster, CollectiveOp op, const CommunicationGroup& group,
                    double bytes) {
  const auto ranks = static_cast<double>(group.ranks);
  const auto per_node = static_cast<double>(group.ranks_per_node);
  const LinkLevel& level = level_of(cluster, group);
  const AcrossNodes across{cluster.levels.front(), level, ranks, per_node,
                           std::ceil(ranks / per_node)};
  const double inside = inside_node(across.inner, op, group.ranks_per_node, bytes).seconds;
  switch (op) {
    case CollectiveOp::kAllReduce:
    case CollectiveOp::kAllGather:
    case CollectiveOp::kReduceScatter:
      return reduce_or_gather(across, op, inside, bytes);
    case CollectiveOp::kAllToAll:
      return {std::max(across.all_to_all(bytes), inside), Algorithm::kRing};
    case CollectiveOp::kBroadcast:
    case CollectiveOp::kSend:
      return {level.message_start_s + bytes / level.bytes_per_s, Algorithm::kRing};
  }
  TRIB_RAISE(Fault::kBug, .what = "cost: collective without a cost");
}

}  // namespace

double all_reduce_seconds(const LinkLevel& level, std::int64_t ranks, double bytes) {
  if (ranks <= 1) return 0;
  const double hops = 2.0 * static_cast<double>(ranks - 1);
  const double volume = hops / static_cast<double>(ranks) * bytes *
                        bus_seconds_per_byte(level, static_cast<double>(ranks));
  const double simple = level.start_s + hops * level.hop_s + volume;
  if (level.low_latency_start_s == 0) return simple;
  return std::min(simple, level.low_latency_start_s + hops * level.low_latency_hop_s +
                              level.low_latency_slowdown * volume);
}

CommunicationGroup group_of(std::int64_t ranks, std::int64_t stride,
                            std::int64_t devices_per_node) {
  return {.ranks = ranks,
          .ranks_per_node = std::clamp<std::int64_t>(devices_per_node / stride, 1, ranks)};
}

std::size_t level_between(const Cluster& cluster, std::int64_t a, std::int64_t b) {
  for (std::size_t level = 0; level + 1 < cluster.levels.size(); ++level)
    if (a / cluster.levels[level].ranks == b / cluster.levels[level].ranks) return level;
  return cluster.levels.empty() ? 0 : cluster.levels.size() - 1;
}

CommunicationGroup group_of(const Cluster& cluster, std::span<const std::int64_t> ranks) {
  const std::int64_t devices = cluster.devices_per_node();
  const auto all = static_cast<std::int64_t>(ranks.size());
  CommunicationGroup group{.ranks = all, .ranks_per_node = all};
  std::int64_t in_node = 0;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    ++in_node;
    if (i + 1 < ranks.size() && ranks[i + 1] / devices == ranks[i] / devices) continue;
    group.ranks_per_node = std::min(group.ranks_per_node, in_node);
    in_node = 0;
  }
  group.level = level_between(cluster, ranks.front(), ranks.back());
  return group;
}

CollectiveCost collective_cost(const Cluster& cluster, CollectiveOp op,
                               const CommunicationGroup& group, Bytes bytes) {
  TRIB_REQUIRE(group.ranks >= 1 && group.ranks_per_node >= 1 &&
                   group.ranks_per_node <= group.ranks && group.ranks <= cluster.devices &&
                   group.ranks_per_node <= cluster.devices_per_node(),
               .what = "cost: group is not within the cluster",
               .found = str(group.ranks, " ranks, ", group.ranks_per_node, " in a node"),
               .expected = str("at most ", cluster.devices, " and ", cluster.devices_per_node()));
  TRIB_REQUIRE(bytes.count >= 0, .what = "cost: collective of fewer than no bytes",
               .found = str(bytes));
  if (group.ranks == 1) return {};
  const auto amount = static_cast<double>(bytes.count);
  const Choice choice = group.ranks == group.ranks_per_node
                            ? inside_node(cluster.levels.front(), op, group.ranks, amount)
                            : across_nodes(cluster, op, group, amount);
  return {.time = {std::max<std::int64_t>(1, std::llround(1e9 * choice.seconds))},
          .algorithm = choice.algorithm};
}

}  // namespace tributary::cost
