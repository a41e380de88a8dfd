#include "plan/exact/found_plan.h"

#include <algorithm>

namespace tributary::plan {
namespace {

/// The trainer makes as many microbatches as the capacity asks for.
bool train_alike(const FoundPlan& a, const FoundPlan& b) {
  config::BatchPlan batch = a.plan.batch;
  batch.microbatches = b.plan.batch.microbatches;
  return a.plan.modules == b.plan.modules && batch == b.plan.batch;
}

}  // namespace

bool is_better(const FoundPlan& a, const FoundPlan& b) {
  if (a.step != b.step) return a.step < b.step;
  if (a.simulated_batches != b.simulated_batches) return a.simulated_batches > b.simulated_batches;
  return !a.choice.has_colocated() && b.choice.has_colocated();
}

void drop_twins(std::vector<FoundPlan>& plans) {
  std::stable_sort(plans.begin(), plans.end(), [](const FoundPlan& a, const FoundPlan& b) {
    return a.simulated_batches > b.simulated_batches;
  });
  std::vector<FoundPlan> left;
  for (FoundPlan& plan : plans)
    if (std::ranges::none_of(left, [&](const FoundPlan& each) { return train_alike(each, plan); }))
      left.push_back(std::move(plan));
  plans = std::move(left);
}

}  // namespace tributary::plan
