#pragma once

#include <array>
#include <vector>

#include "plan/problem/planning_problem.h"

namespace tributary::plan {

/// How far the samples of a problem differ.
struct SampleSpread {
  explicit SampleSpread(const PlanningProblem& problem);

  /// The largest sample against the mean one: by its tokens, or by its images and sound together.
  double largest = 1;
  /// Likewise by its tokens or by one medium.
  std::array<double, cost::kAllMedia.size()> largest_of = {};
  /// Of which some samples have nothing, and others something.
  std::vector<cost::Media> idle = {};
};

/// The longest sample of a batch, and those with the most of each medium that it has.
[[nodiscard]] std::vector<simulate::SampleSize> largest_samples(
    const std::vector<simulate::SampleSize>& batch);

}  // namespace tributary::plan
