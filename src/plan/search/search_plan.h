#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/candidates/list_candidates.h"
#include "plan/certificate.h"
#include "plan/problem/plan_choice.h"

namespace tributary::plan {

/// Budgets count evaluations, never time.
struct PlanEffort {
  CandidateEffort candidates = {};
  double race = 1.1;                // runners above this times the best are judged no further
  std::int64_t finalists = 10;      // whose cuts are polished and whose links are shared; and
                                    // a quarter as many again with colocated encoders
  std::int64_t moves = 20;          // of a unit over a boundary, tried for each finalist
  std::int64_t messages = 250'000;  // of steps with shared links: before the race, and over
                                    // all finalists; as many again for colocated encoders
  std::int64_t dealt = 30'000;      // samples of these steps: before the race, and over all
                                    // finalists; if these need more, only the best get it
  int threads = 0;                  // 0: one a core; the result does not depend on it
};

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
[[nodiscard]] inline bool is_better(const FoundPlan& a, const FoundPlan& b) {
  if (a.step != b.step) return a.step < b.step;
  if (a.simulated_batches != b.simulated_batches) return a.simulated_batches > b.simulated_batches;
  return !a.choice.has_colocated() && b.choice.has_colocated();
}

struct PlanSearch {
  Certificate certificate = {};       // for the mean step of the first plan
  std::vector<FoundPlan> plans = {};  // [at most finalists], the best first
  std::int64_t cells = 0;
  std::int64_t estimates = 0;  // choices ranked by the closed form
  std::int64_t judged = 0;     // choices run on batches
  std::int64_t unshared = 0;   // colocated finalists left out: too many messages to
                               // share links as the others do
  LeftOut left_out = {};       // for lack of measured costs
};

/// Finds a plan of the space with a small simulated mean step over the batches, and bounds its
/// distance from the optimum.
///
/// Step 1 ranks choices by a closed form (list_candidates). Step 2 runs the best `keep` of them
/// replica by replica on one batch, measures the effect of shared links for those near the best
/// where the budgets allow, and runs these on more and more batches. Step 3 moves layers of the
/// best few over stage boundaries and simulates them with shared links. If none of them fits, those
/// that hold less have a turn, and at last the leanest of the space.
///
/// errors: Fault::kInput as check_problem; an infeasible problem is a result that says what binds
/// cost:   1,024 devices: bench/plan/search_bench
/// source: docs/theory/planning.md, "Search in steps"
[[nodiscard]] PlanSearch search_plan(const PlanningProblem& problem, const PlanEffort& effort = {});

}  // namespace tributary::plan
