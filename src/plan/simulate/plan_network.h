#pragma once

#include "config/cluster.h"
#include "config/plan.h"
#include "plan/simulate/step_load.h"

namespace tributary::plan {

/// Replicas that are simulated once, each for several: symmetric replicas have equal inputs.
struct ReplicaFolding {
  std::vector<int> stands_for;  // [modules of the pipeline] replicas of the plan for each simulated
};

struct NetworkOptions {
  bool share_links = true;     // false: a message takes as long as if it were alone
  int pool_microbatches = 16;  // that the pool keeps of an encoder that runs ahead
  std::int64_t threads = 0;    // that each rank computes with, where ranks share cores; 0: an equal
                               // part of them, and at least one
};

/// The ways between the lanes of a plan, on the levels of a cluster: device i is rank i, a lane is
/// as near to another as their first ranks, and each rank has one port for each level and
/// direction.
///
/// errors: Fault::kInput when the plan has more ranks than the cluster has devices
[[nodiscard]] Network network_of(const config::Plan& plan, const config::Cluster& cluster,
                                 const StepProgram& program, const ReplicaFolding& folding,
                                 const NetworkOptions& options);

}  // namespace tributary::plan
