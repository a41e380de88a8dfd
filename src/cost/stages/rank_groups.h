#pragma once

#include <vector>

#include "config/plan/plan.h"
#include "cost/collective_cost.h"

namespace tributary::cost {

/// The groups that the ranks of one pp coordinate meet in. Of equal groups side by side the one
/// with the narrowest links: the others wait for it.
struct RankGroups {
  CommunicationGroup tp = {};
  CommunicationGroup ulysses = {};
  CommunicationGroup cp = {};
  CommunicationGroup sequence = {};      // cp and ulysses
  CommunicationGroup shard = {};         // dp_shard, cp and ulysses
  CommunicationGroup replicate = {};     // dp_replicate
  CommunicationGroup expert = {};        // ep: neighbours in shard
  CommunicationGroup expert_shard = {};  // ep_fsdp: what is left of shard
  CommunicationGroup ends = {};          // first and last pp coordinate, whichever this is

  friend bool operator==(const RankGroups&, const RankGroups&) = default;
};

/// shape: returns [pp]
/// errors: Fault::kBug when the module has not as many ranks as its mesh
/// cost:   O(ranks)
/// source: docs/theory/parallelism.md, "Axes of a mesh"
[[nodiscard]] std::vector<RankGroups> groups_of(const config::ModulePlan& module,
                                                const config::Cluster& cluster);

}  // namespace tributary::cost
