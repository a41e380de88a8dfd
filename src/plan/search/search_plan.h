#pragma once

#include <string>
#include <vector>

#include "plan/candidates/list_candidates.h"
#include "plan/certificate.h"
#include "plan/problem/found_plan.h"

namespace tributary::plan {

/// Budgets count what is done, never time.
struct PlanEffort {
  CandidateEffort candidates = {};
  double race = 1.1;                // of the best: who is above is judged no further
  std::int64_t finalists = 10;      // whose cuts are polished and whose links are shared; and a
                                    // quarter as many more of colocated encoders
  std::int64_t moves = 20;          // of a unit over a boundary, tried for each finalist
  std::int64_t messages = 250'000;  // of steps with shared links: before the race, and of all
                                    // finalists; as many more for colocated encoders
  std::int64_t dealt = 30'000;      // samples of these steps: before the race, and of all
                                    // finalists, of whom with more the best go on
  int threads = 0;                  // 0: one a core; the result does not depend on it
};

struct PlanSearch {
  Certificate certificate = {};       // of the mean step of the first plan
  std::vector<FoundPlan> plans = {};  // [at most finalists], the best first
  std::int64_t cells = 0;
  std::int64_t estimates = 0;  // choices ranked by the closed form
  std::int64_t judged = 0;     // choices run on batches
  std::int64_t unshared = 0;   // colocated finalists left out: they have too many messages to share
                               // links as the others do
  LeftOut left_out = {};       // for want of measured costs
};

/// Finds a plan of the space whose simulated mean step over the batches is small, and says how far
/// from the least it can be.
///
/// Step 1 ranks choices by a closed form (list_candidates). Step 2 runs the best `keep` replica by
/// replica on one batch, finds what sharing links is to those near the best, where the budgets
/// allow, and runs these on more and more batches. Step 3 moves layers of the best few over stage
/// boundaries and simulates them with shared links, where the budgets allow. Where none of them
/// fits after all, those that hold less have their turn, at last the leanest of the space.
///
/// errors: Fault::kInput as check_problem; an infeasible problem is a result that says what binds
/// cost:   1,024 devices: bench/plan/search_bench
/// source: docs/theory/planning.md, "Search in steps"
[[nodiscard]] PlanSearch search_plan(const PlanningProblem& problem, const PlanEffort& effort = {});

}  // namespace tributary::plan
