#pragma once

#include <cstdint>
#include <string>

#include "plan/exact/planning_problem.h"

namespace tributary::plan {

/// What becomes of a plan where samples are dealt as the trainer deals them: into bins of a
/// capacity, not into level buckets.
struct TrainedStep {
  Tokens capacity = {};  // the least at which it makes the plan's number of microbatches
  Nanoseconds step = {};
  std::int64_t batches = 0;  // of which `step` is the mean
  Bytes peak = {};           // of the fullest device
  std::string fullest = {};  // its module
};

/// Deals the problem's first batches as the trainer does and simulates them.
///
/// cost: some deals of every batch for the capacity, and the simulation
[[nodiscard]] TrainedStep trained_step(const PlanningProblem& problem, config::Plan plan,
                                       std::int64_t batches);

}  // namespace tributary::plan
