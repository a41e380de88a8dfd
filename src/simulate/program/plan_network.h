#pragma once

#include "config/artifact/cluster.h"
#include "config/plan/plan.h"
#include "simulate/program/fold_replicas.h"
#include "simulate/program/step_load.h"

namespace tributary::simulate {

struct NetworkOptions {
  bool share_links = true;     // false: no message shares a link
  int pool_microbatches = 16;  // max microbatches of an encoder ahead that the pool keeps
  std::int64_t threads = 0;    // of each rank, where ranks share cores; 0: an equal part of
                               // them, at least one
};

/// The number of ranks of the plan that each simulated lane represents.
///
/// shape: [lanes]
[[nodiscard]] std::vector<std::int64_t> ranks_of_lanes(const config::Plan& plan,
                                                       const StepProgram& program,
                                                       const ReplicaFolding& folding);

/// The routes between the lanes of a plan, on the levels of a cluster: device i is rank i, two
/// lanes are as far apart as their first ranks, and each rank has a port for each level and
/// direction.
///
/// errors: Fault::kInput when the plan has more ranks than the cluster has devices
[[nodiscard]] Network network_of(const config::Plan& plan, const config::Cluster& cluster,
                                 const StepProgram& program, const ReplicaFolding& folding,
                                 const NetworkOptions& options);

}  // namespace tributary::simulate
