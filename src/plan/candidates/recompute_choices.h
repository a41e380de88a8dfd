#pragma once

#include <vector>

#include "plan/chains/chain_tables.h"

namespace tributary::plan {

/// A level of recompute for a backbone, and one for each encoder inside it.
struct RecomputeChoice {
  config::RecomputePlan backbone = config::RecomputePlan::kNone;
  InlineRecompute inside = {};

  /// Recomputes all that `other` does, and so takes no less time and keeps no more.
  [[nodiscard]] bool covers(const RecomputeChoice& other, std::size_t encoders) const;
};

/// Every choice of the space for the encoders that `apart` leaves inside, each behind those that it
/// covers. An encoder that keeps nothing for a backward has the least level alone.
[[nodiscard]] std::vector<RecomputeChoice> list_recompute(const PlanningProblem& problem,
                                                          std::uint64_t apart);

}  // namespace tributary::plan
