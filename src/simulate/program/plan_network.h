#pragma once

#include "config/artifact/cluster.h"
#include "config/plan/plan.h"
#include "simulate/program/fold_replicas.h"
#include "simulate/program/step_load.h"

namespace tributary::simulate {

struct NetworkOptions {
  bool share_links = true;     // false: a message takes as long as if it were alone
  int pool_microbatches = 16;  // that the pool keeps of an encoder that runs ahead
  std::int64_t threads = 0;    // that each rank computes with, where ranks share cores; 0: an equal
                               // part of them, and at least one
};

/// The ranks of the plan that each simulated lane stands for.
///
/// shape: [lanes]
[[nodiscard]] std::vector<std::int64_t> ranks_of_lanes(const config::Plan& plan,
                                                       const StepProgram& program,
                                                       const ReplicaFolding& folding);

/// The ways between the lanes of a plan, on the levels of a cluster: device i is rank i, a lane is
/// as near to another as their first ranks, and each rank has one port for each level and
/// direction.
///
/// errors: Fault::kInput when the plan has more ranks than the cluster has devices
[[nodiscard]] Network network_of(const config::Plan& plan, const config::Cluster& cluster,
                                 const StepProgram& program, const ReplicaFolding& folding,
                                 const NetworkOptions& options);

}  // namespace tributary::simulate
