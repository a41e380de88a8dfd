#pragma once

#include <cstdint>
#include <vector>

#include "plan/chains/chain_tables.h"

namespace tributary::plan {

/// The sets of encoders, as bits, that may have ranks of their own in this space.
[[nodiscard]] std::vector<std::uint64_t> list_apart(const PlanningProblem& problem);

/// The encoders that may run on the backbone's ranks while the others are inline.
[[nodiscard]] std::vector<int> list_colocated(const PlanningProblem& problem);

/// A level of recompute for the backbone, and one for each encoder inside it.
struct RecomputeChoice {
  config::RecomputePlan backbone = config::RecomputePlan::kNone;
  InlineRecompute inside = {};

  /// Whether this recomputes all that `other` does: then it takes no less time and keeps no more.
  [[nodiscard]] bool covers(const RecomputeChoice& other, std::size_t encoders) const;
};

/// Every recompute choice of the space, with the encoders of `apart` outside the backbone. A choice
/// comes after those that it covers. An encoder that keeps nothing has only the lowest level.
[[nodiscard]] std::vector<RecomputeChoice> list_recompute(const PlanningProblem& problem,
                                                          std::uint64_t apart);

}  // namespace tributary::plan
