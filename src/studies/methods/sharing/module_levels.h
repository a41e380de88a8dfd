#pragma once

#include <span>
#include <vector>

#include "plan/sharing/sharing_problem.h"
#include "studies/methods/sharing/sharing_baselines.h"

namespace tributary::studies {

/// The modules by depth in the graph: modules of a level do not depend on each other.
[[nodiscard]] std::vector<std::vector<std::int32_t>> levels_of(const plan::SharingProblem& problem);

/// The fastest way to run whole modules side by side on their own devices; there must be no more of
/// them than `count_side_by_side` says.
[[nodiscard]] BaselineWave place_side_by_side(const plan::SharingProblem& problem,
                                              std::span<const std::int32_t> modules,
                                              std::int64_t& evaluations);

/// Divides a level into the fewest such waves that fit, the largest modules first.
[[nodiscard]] std::vector<BaselineWave> place_level(const plan::SharingProblem& problem,
                                                    std::vector<std::int32_t> level,
                                                    std::int64_t& evaluations);

}  // namespace tributary::studies
