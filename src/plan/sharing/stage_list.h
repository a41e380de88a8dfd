#pragma once

#include <vector>

#include "plan/sharing/stage_values.h"
#include "plan/sharing/staging.h"

namespace tributary::plan {

/// Stages in an order that respects all dependencies, and the sum of their times.
struct StageList {
  std::vector<ModuleSet> stages = {};
  std::int64_t time = StageValues::kNever;
};

/// Mosaic's greedy merging; empty when a module does not fit a device even without others.
[[nodiscard]] StageList merge_greedily(const std::vector<ModuleSet>& ancestors,
                                       StageValues& values);

/// Moves, splits off and swaps modules between stages while the sum falls.
[[nodiscard]] StageList exchange_modules(const std::vector<ModuleSet>& ancestors,
                                         StageValues& values, StageList list);

/// The stages with their placements.
[[nodiscard]] Staging to_staging(StageValues& values, const StageList& list);

/// Lower bound on every staging: the min area of all modules, and the longest chain.
[[nodiscard]] std::int64_t staging_bound(const SharingProblem& problem,
                                         const ShareOptions& options);

/// Names the first module that does not fit a device even without others.
[[nodiscard]] std::string explain_unplaced(const SharingProblem& problem, StageValues& values);

}  // namespace tributary::plan
