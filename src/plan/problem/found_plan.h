#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/problem/plan_choice.h"

namespace tributary::plan {

/// A plan with what it is worth.
struct FoundPlan {
  PlanChoice choice = {};
  config::Plan plan = {};  // with `predicted`
  Nanoseconds step = {};   // mean over the batches
  Nanoseconds deviation = {};
  Nanoseconds percentile_95 = {};
  Bytes peak = {};            // of the fullest device
  std::string fullest = {};   // its module
  bool links_shared = false;  // simulated in full; else messages travel as if each were alone
  // In full. On the other batches a step is that of replicas whose messages travel as if each were
  // alone, longer by as much as steps are on these.
  std::int64_t simulated_batches = 0;
  bool outside_grid = false;  // sizes above those that were measured
};

/// Faster; of equals simulated on more batches, or one that the trainer runs.
[[nodiscard]] bool is_better(const FoundPlan& a, const FoundPlan& b);

}  // namespace tributary::plan
