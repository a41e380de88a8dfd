#pragma once

#include <vector>

#include "plan/judge/batch_deals.h"
#include "plan/judge/plan_judge.h"
#include "plan/problem/found_plan.h"

namespace tributary::plan {

/// A candidate in the race.
struct Runner {
  PlanChoice choice;
  std::vector<ChainCut> cuts;
  PlanVerdict verdict;
  double links = 1;  // factor that shared links put on a step, where known

  [[nodiscard]] Nanoseconds mean() const;
};

void stable_sort_by_mean(std::vector<Runner>& runners);

/// Simulates the runner's plan with shared links on the first `simulated` different batches, and
/// estimates the other batches from that.
[[nodiscard]] FoundPlan finish_plan(const PlanningProblem& problem, BatchDeals& deals,
                                    const Runner& runner, std::size_t simulated);

}  // namespace tributary::plan
