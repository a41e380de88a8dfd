#pragma once

#include <span>

#include "config/artifact/cluster.h"
#include "config/artifact/profile.h"
#include "core/units.h"

namespace tributary::cost {

/// The members of a collective: `ranks` devices, `ranks_per_node` of them in each innermost level.
/// The other devices form such groups too, each using its own links.
struct CommunicationGroup {
  std::int64_t ranks = 1;
  std::int64_t ranks_per_node = 1;
  std::size_t level = 0;  // the level that joins its nodes; 0: the first that holds them all

  friend bool operator==(const CommunicationGroup&, const CommunicationGroup&) = default;
};

enum class Algorithm { kRing, kTree, kHierarchical, kTable };

struct CollectiveCost {
  Nanoseconds time = {};
  Algorithm algorithm = Algorithm::kRing;
};

/// Time of a collective by the fastest algorithm; `bytes` is the full buffer, or the message of a
/// send. An all-reduce inside a node is looked up where its group size was measured. More bytes
/// never take less time, and a second node never makes a reduction, gather, scatter or all-to-all
/// faster.
///
/// errors: Fault::kInput when the group is not within the cluster
/// cost:   under a microsecond
/// source: docs/theory/planning.md, "Collectives"
[[nodiscard]] CollectiveCost collective_cost(const config::Cluster& cluster,
                                             config::CollectiveOp op,
                                             const CommunicationGroup& group, Bytes bytes);

/// All-reduce inside one level by the formula without look-ups, for fits.
[[nodiscard]] double all_reduce_seconds(const config::LinkLevel& level, std::int64_t ranks,
                                        double bytes);

/// The ranks of a group whose members are `stride` apart, in nodes of `devices_per_node`.
[[nodiscard]] CommunicationGroup group_of(std::int64_t ranks, std::int64_t stride,
                                          std::int64_t devices_per_node);

/// The group of these devices. Where nodes hold unequal parts of it, every node counts as holding
/// the smallest part, because that node's links are the bottleneck.
///
/// shape: ranks ascending, at least one
[[nodiscard]] CommunicationGroup group_of(const config::Cluster& cluster,
                                          std::span<const std::int64_t> ranks);

/// The innermost level that joins two devices.
[[nodiscard]] std::size_t level_between(const config::Cluster& cluster, std::int64_t a,
                                        std::int64_t b);

}  // namespace tributary::cost
