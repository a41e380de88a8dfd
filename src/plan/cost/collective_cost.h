#pragma once

#include "config/cluster.h"
#include "config/profile.h"
#include "core/units.h"

namespace tributary::plan {

/// Who takes part: `ranks` devices, evenly over `nodes` (or larger units of a level).
struct CommunicationGroup {
  std::int64_t ranks = 1;
  std::int64_t ranks_per_node = 1;  // of the group, in one node
  std::int64_t sharing = 1;         // groups that use the same links between nodes at once
};

enum class Algorithm { kRing, kTree, kHierarchical };

struct CollectiveCost {
  Nanoseconds time = {};
  Algorithm algorithm = Algorithm::kRing;
};

/// Time of a collective of `bytes` (the full buffer) by the fastest algorithm there is.
///
/// errors: Fault::kInput when the group does not fit the cluster
/// source: planning.md section 12; one rank costs nothing
[[nodiscard]] CollectiveCost collective_cost(const config::Cluster& cluster,
                                             config::CollectiveOp op,
                                             const CommunicationGroup& group, Bytes bytes);

}  // namespace tributary::plan
