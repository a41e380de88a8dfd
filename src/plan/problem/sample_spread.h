#pragma once

#include <array>
#include <vector>

#include "plan/problem/planning_problem.h"

namespace tributary::plan {

/// How much the samples of a problem differ.
struct SampleSpread {
  explicit SampleSpread(const PlanningProblem& problem);

  /// The largest sample over the mean one: in tokens, or in images and sound together.
  double largest = 1;
  /// The same in tokens or in one medium.
  std::array<double, cost::kAllMedia.size()> largest_of = {};
  /// Media that some samples have and others lack.
  std::vector<cost::Media> idle = {};
};

/// The longest sample of a batch, and the samples with the most of each medium.
[[nodiscard]] std::vector<simulate::SampleSize> largest_samples(
    const std::vector<simulate::SampleSize>& batch);

}  // namespace tributary::plan
