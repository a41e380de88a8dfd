#include <gtest/gtest.h>
#include <iostream>

#include "plan/search/search_plan.h"
#include "tests/plan/search/exact_case.h"

namespace tributary::plan {
namespace {

const PlanEffort kLikeLargeBatches = {.candidates = {.keep = 200}};

/// On slow links, where ranks of encoders that are laid out as the backbone's are often the best.
PlanningProblem on_slow_links(std::uint64_t seed) {
  RandomStream random(seed, "beside the trainer's");
  const std::int64_t sizes[] = {6, 8, 12, 16};
  PlanningProblem problem = tiny_problem(sizes[random.below(4)], 48, 1, seed);
  problem.model = tiny_model(8, 1);
  problem.cluster.device.memory = {random.between(800, 1500) << 20};
  for (config::LinkLevel& level : problem.cluster.levels) level.bytes_per_s *= 0.1;
  return problem;
}

TEST(SearchPlan, MorePlacesForSmallBatchesFindBetterPlans) {
  double gain = 0;
  double worst = 0;
  constexpr int kProblems = 12;
  for (std::uint64_t seed = 0; seed < kProblems; ++seed) {
    const PlanningProblem problem = on_slow_links(seed);
    const PlanSearch more = search_plan(problem);
    const PlanSearch fewer = search_plan(problem, kLikeLargeBatches);
    if (fewer.plans.empty()) continue;
    ASSERT_FALSE(more.plans.empty()) << "seed " << seed;
    const double ratio = static_cast<double>(more.certificate.value.count) /
                         static_cast<double>(fewer.certificate.value.count);
    gain += (1 - ratio) / kProblems;
    worst = std::max(worst, ratio);
  }
  std::cout << "faster by " << 100 * gain << " % on the mean, slower by " << 100 * (worst - 1)
            << " % at most\n";
  EXPECT_GE(gain, 0.01);
  EXPECT_LE(worst, 1.02);
}

TEST(SearchPlan, LeavesOutColocatedPlansThatCannotShareLinksAsTheOthersDo) {
  const PlanningProblem problem = tiny_problem(32, 64, 1, 11);
  bool are_left_out = false;
  bool are_compared = false;
  for (std::int64_t messages = 500; messages < 200'000; messages *= 2) {
    const PlanSearch found = search_plan(problem, {.messages = messages});
    EXPECT_TRUE(found.plans.front().links_shared) << messages << " messages";
    bool all_shared = true;
    bool any_colocated = false;
    for (const FoundPlan& each : found.plans) {
      all_shared = all_shared && each.links_shared;
      any_colocated = any_colocated || each.choice.has_colocated();
    }
    EXPECT_TRUE(all_shared || found.unshared == 0) << messages << " messages";
    are_left_out = are_left_out || found.unshared > 0;
    are_compared = are_compared || (found.unshared == 0 && all_shared && any_colocated);
  }
  EXPECT_TRUE(are_left_out);
  EXPECT_TRUE(are_compared);
}

/// A winner that fits only without the margin for other batches is no answer; the next one must be
/// simulated then, not estimated.
TEST(SearchPlan, SimulatesTheBestWhereMemoryIsTightAndMessagesAreMany) {
  PlanningProblem problem = tiny_problem(32, 64, 1, 11);
  const PlanEffort effort{.messages = 1};
  const Bytes peak = search_plan(problem, effort).plans.front().peak;
  for (int above = 0; above < 6; ++above) {
    problem.cluster.device.memory =
        problem.cluster.device.reserve + Bytes{peak.count * (1000 + 2 * above) / 1000};
    const PlanSearch found = search_plan(problem, effort);
    ASSERT_FALSE(found.plans.empty());
    EXPECT_TRUE(found.plans.front().links_shared) << above;
  }
}

}  // namespace
}  // namespace tributary::plan
