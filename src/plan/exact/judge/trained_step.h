#pragma once

#include <cstdint>
#include <string>

#include "plan/exact/planning_problem.h"

namespace tributary::plan {

/// What becomes of a plan where samples are dealt as the trainer deals them: into bins of a
/// capacity, not into level buckets.
struct TrainedStep {
  Tokens capacity = {};      // that no sample exceeds, and at which it makes no more microbatches
                             // than the plan has; larger than needed by 2 % at most
  Nanoseconds step = {};     // mean over the batches
  Bytes peak = {};           // of the fullest device in any of them
  std::string fullest = {};  // its module
};

/// Deals the problem's batches as the trainer does and simulates them with shared links.
///
/// cost: some deals of every batch for the capacity, and the simulation
[[nodiscard]] TrainedStep trained_step(const PlanningProblem& problem, config::Plan plan);

}  // namespace tributary::plan
