#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/problem/plan_choice.h"

namespace tributary::plan {

/// A plan that a search found, and its value.
struct FoundPlan {
  PlanChoice choice = {};
  config::Plan plan = {};  // with `predicted`
  Nanoseconds step = {};   // mean over the batches
  Nanoseconds deviation = {};
  Nanoseconds percentile_95 = {};
  Bytes peak = {};            // of the fullest device
  std::string fullest = {};   // its module
  bool links_shared = false;  // simulated in full; otherwise no messages share a link
  // Batches simulated in full. On the others a step is timed without shared links and scaled by the
  // ratio that those simulated in full show.
  std::int64_t simulated_batches = 0;
  bool outside_grid = false;  // some size is above those measured
};

/// Whether `a` is faster; of equals, simulated on more batches, or one that the trainer runs.
[[nodiscard]] bool is_better(const FoundPlan& a, const FoundPlan& b);

}  // namespace tributary::plan
