#pragma once

#include "studies/methods/training_problem.h"
#include "tests/studies/dflop/problem_3d_oracle.h"

namespace tributary::studies {

/// Two batches of the reference mixture for model A on eight devices.
inline TrainingProblem small_problem(std::uint64_t seed) {
  TrainingProblem problem;
  problem.costs = synthetic_problem(kModelA, 8, 32);
  problem.batches = draw_batches(2, 32, seed);
  problem.feature_bytes = 729 * 4096 * 2;
  set_mean_shapes(problem);
  return problem;
}

}  // namespace tributary::studies
