#pragma once

#include <vector>

#include "config/plan/plan.h"
#include "cost/collective_cost.h"

namespace tributary::cost {

/// The communication groups of the ranks of one pp coordinate. Among groups of one kind it is the
/// one with the narrowest links: the others wait for it.
struct RankGroups {
  CommunicationGroup tp = {};
  CommunicationGroup ulysses = {};
  CommunicationGroup cp = {};
  CommunicationGroup sequence = {};      // cp and ulysses
  CommunicationGroup shard = {};         // dp_shard, cp and ulysses
  CommunicationGroup replicate = {};     // dp_replicate
  CommunicationGroup expert = {};        // ep: neighbours in shard
  CommunicationGroup expert_shard = {};  // ep_fsdp: shard without ep
  CommunicationGroup ends = {};          // first and last pp coordinate; the same in every entry

  friend bool operator==(const RankGroups&, const RankGroups&) = default;
};

/// shape: returns [pp]
/// errors: Fault::kBug when the number of the module's ranks is not that of its mesh
/// cost:   O(ranks)
/// source: docs/theory/parallelism.md, "Axes of a mesh"
[[nodiscard]] std::vector<RankGroups> groups_of(const config::ModulePlan& module,
                                                const config::Cluster& cluster);

}  // namespace tributary::cost
