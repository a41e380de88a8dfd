#include <cstdlib>
#include <gtest/gtest.h>
#include <iostream>

#include "plan/judge/cut_chains.h"
#include "plan/judge/simulate_on.h"
#include "plan/search/search_plan.h"
#include "tests/plan/search/drawn_problem.h"

namespace tributary::plan {
namespace {

constexpr std::int64_t kUsual = 60;
constexpr std::size_t kMoreChoices = 6;

/// TRIBUTARY_DRAWN_MODELS: how many models are drawn; from TRIBUTARY_DRAWN_FIRST on.
std::int64_t number_of(const char* variable, std::int64_t usual) {
  const char* text = std::getenv(variable);
  return text == nullptr ? usual : std::atoll(text);
}

/// The first choices of a list, and some from all over it, as plans of the simulator.
void hold_listed_choices(const PlanningProblem& problem, std::uint64_t seed) {
  ChainTables tables(problem);
  const CandidateList list = list_candidates(problem, tables, {.keep = 4'000, .within = 1e9});
  RandomStream random(seed, "listed choices");
  BatchDeals deals(problem);
  PlanJudge judge(problem, deals);
  ChainCutter cutter(problem);
  for (std::size_t i = 0; i < std::min(kMoreChoices, list.candidates.size()); ++i) {
    const std::size_t at = i < kMoreChoices / 2 ? i : random.below(list.candidates.size());
    const PlanChoice& choice = list.candidates[at].choice;
    config::Plan plan = to_plan(problem, choice, cutter.cut(choice, judge));
    plan.batch.capacity_tokens = deals.capacity(plan, problem.batches.size());
    const auto batches = std::ssize(problem.batches);
    const simulate::Simulation simulation = simulate_on(problem, plan, batches);
    if (!simulation.out_of_memory) {
      EXPECT_GE(simulation.distribution.mean, list.lower_bound) << describe(problem, choice);
    }
  }
}

/// Whether there is a plan.
bool hold_problem(const PlanningProblem& problem, std::uint64_t seed) {
  const PlanSearch search =
      search_plan(problem, {.candidates = {.keep = 60}, .finalists = 4, .threads = 1});
  const Certificate& certificate = search.certificate;
  hold_listed_choices(problem, seed);
  if (search.plans.empty()) {
    EXPECT_EQ(certificate.status, Status::kInfeasible);
    EXPECT_FALSE(certificate.limit.empty());
    return false;
  }
  const auto batches = std::ssize(problem.batches);
  for (const FoundPlan& found : search.plans) {
    SCOPED_TRACE(describe(problem, found.choice));
    config::check_plan(found.plan, "plan");
    EXPECT_GE(found.step, certificate.lower_bound);
    const simulate::Simulation simulation = simulate_on(problem, found.plan, batches);
    EXPECT_FALSE(simulation.out_of_memory.has_value());
    EXPECT_GE(simulation.distribution.mean, certificate.lower_bound);
    if (found.simulated_batches == batches) {
      EXPECT_EQ(simulation.distribution.mean, found.step);
    }
  }
  return true;
}

TEST(DrawnModels, HaveNoPlanBelowTheBoundAndPlansThatFit) {
  const std::int64_t models = number_of("TRIBUTARY_DRAWN_MODELS", kUsual);
  const std::int64_t first = number_of("TRIBUTARY_DRAWN_FIRST", 0);
  std::int64_t feasible = 0;
  for (std::int64_t model = first; model < first + models; ++model) {
    const auto seed = static_cast<std::uint64_t>(model);
    SCOPED_TRACE(str("model ", model));  // drawn again with TRIBUTARY_DRAWN_FIRST
    try {
      if (hold_problem(DrawnProblem(seed).draw(), seed)) ++feasible;
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what();
    }
  }
  std::cout << feasible << " of " << models << " drawn models have a plan\n";
  EXPECT_GE(feasible, models / 2);
}

}  // namespace
}  // namespace tributary::plan
