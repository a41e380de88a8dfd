#include "plan/problem/found_plan.h"

namespace tributary::plan {

bool is_better(const FoundPlan& a, const FoundPlan& b) {
  if (a.step != b.step) return a.step < b.step;
  if (a.simulated_batches != b.simulated_batches) return a.simulated_batches > b.simulated_batches;
  return !a.choice.has_colocated() && b.choice.has_colocated();
}

}  // namespace tributary::plan
