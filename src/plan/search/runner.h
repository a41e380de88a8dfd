#pragma once

#include <vector>

#include "plan/judge/batch_deals.h"
#include "plan/judge/plan_judge.h"
#include "plan/problem/found_plan.h"

namespace tributary::plan {

/// A candidate on its way through the race.
struct Runner {
  PlanChoice choice;
  std::vector<ChainCut> cuts;
  PlanVerdict verdict;
  double links = 1;  // what sharing them makes of a step, where that is known

  [[nodiscard]] Nanoseconds mean() const;
};

void stable_sort_by_mean(std::vector<Runner>& runners);

/// The runner's plan with links shared on the first `simulated` of the different batches, and what
/// that says of all.
[[nodiscard]] FoundPlan finish_plan(const PlanningProblem& problem, BatchDeals& deals,
                                    const Runner& runner, std::size_t simulated);

}  // namespace tributary::plan
