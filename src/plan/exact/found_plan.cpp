#include "plan/exact/found_plan.h"

#include <cmath>

namespace tributary::plan {

bool is_better(const FoundPlan& a, const FoundPlan& b) {
  if (a.step != b.step) return a.step < b.step;
  if (a.simulated_batches != b.simulated_batches) return a.simulated_batches > b.simulated_batches;
  return !a.choice.has_colocated() && b.choice.has_colocated();
}

void extend_steps(const std::vector<Nanoseconds>& simulated, std::vector<Nanoseconds>& steps) {
  double with_links = 0;
  double alone = 0;
  for (std::size_t i = 0; i < simulated.size(); ++i) {
    with_links += static_cast<double>(simulated[i].count);
    alone += static_cast<double>(steps[i].count);
  }
  for (Nanoseconds& step : steps)
    step = {std::llround(static_cast<double>(step.count) * with_links / alone)};
}

}  // namespace tributary::plan
