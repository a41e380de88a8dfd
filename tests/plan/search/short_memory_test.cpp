#include <algorithm>
#include <gtest/gtest.h>
#include <iostream>

#include "core/error.h"
#include "plan/candidates/leanest_choices.h"
#include "plan/judge/cut_chains.h"
#include "plan/search/search_plan.h"
#include "tests/plan/search/brute_force.h"
#include "tests/plan/search/exact_case.h"

namespace tributary::plan {
namespace {

using config::PipelineOrder;
using config::RecomputePlan;

/// One device, two or four, with an encoder and without, equal and unequal samples, tables shared
/// with the head and not.
PlanningProblem problem_of(std::uint64_t seed) {
  RandomStream random(seed, "short_memory_test");
  const int encoders = static_cast<int>(random.below(2));
  const std::int64_t devices = std::int64_t{1} << seed % 3;
  PlanningProblem problem = tiny_problem(devices, random.between(2, 4), encoders, seed);
  problem.model = tiny_model(random.between(1, 2), encoders);
  const bool is_tied = random.below(2) == 0;
  for (config::ModuleNode& node : problem.model.modules)
    for (config::LayerRun& run : node.layers)
      if (run.shape.kind == config::LayerKind::kHead) run.shape.tied = is_tied;
  if (random.below(2) == 0)
    for (auto& batch : problem.batches)
      for (simulate::SampleSize& sample : batch) sample = problem.batches[0][0];
  if (random.below(2) == 0) problem.execution.reduce_dtype = config::ReduceDtype::kSame;
  problem.space.schedules = {PipelineOrder::k1f1b};
  problem.space.recompute = {RecomputePlan::kNone, RecomputePlan::kFull};
  problem.cluster.device.reserve = {};
  return problem;
}

/// Memory goes through all edges at which another plan of the space becomes the best.
TEST(ShortMemory, NoPlanThatFitsIsBelowTheBoundOrMissed) {
  std::int64_t edges = 0;
  for (std::uint64_t seed = 0; seed < 24; ++seed) {
    PlanningProblem problem = problem_of(seed);
    for (const BruteForce::Worth& best : BruteForce(problem).run_front()) {
      ++edges;
      problem.cluster.device.memory = best.peak;
      ChainTables tables(problem);
      const CandidateList list = list_candidates(problem, tables);
      EXPECT_GT(list.cells, 0) << "seed " << seed << ": " << best.plan << "; " << list.limit;
      EXPECT_LE(list.lower_bound, best.mean)
          << "seed " << seed << ", " << best.peak << ": " << best.plan;
    }
  }
  EXPECT_GE(edges, 60);
}

/// The shortage is that of a plan that was run: with so much more memory there is one.
TEST(ShortMemory, IsNamedByWhatTheLeanestPlanHolds) {
  constexpr int kProblems = 24;
  int exact = 0;
  int enough = 0;
  for (std::uint64_t seed = 0; seed < kProblems; ++seed) {
    PlanningProblem problem = problem_of(seed);
    const BruteForce::Worth min = BruteForce(problem).run_front().front();
    problem.cluster.device.memory = {min.peak.count * 3 / 10};
    ChainTables tables(problem);
    const CandidateList list = list_candidates(problem, tables);
    ASSERT_TRUE(list.candidates.empty()) << "seed " << seed;
    const std::string words = " holds the least, ";
    const std::size_t at = list.limit.find(words);
    ASSERT_NE(at, std::string::npos) << list.limit;
    const Bytes named{std::stoll(list.limit.substr(at + words.size()))};
    EXPECT_GE(named.count, min.peak.count / 100 * 99) << "seed " << seed << ": " << list.limit;
    EXPECT_NE(list.limit.find(str(named - problem.memory(), " above the ")), std::string::npos)
        << list.limit;
    if (named.count <= min.peak.count / 100 * 102) ++exact;
    problem.cluster.device.memory = {named.count / 100 * 101};
    if (!search_plan(problem).plans.empty()) ++enough;
  }
  std::cout << "of " << kProblems << " named within 2 % of the least of all plans " << exact
            << ", enough with 1 % more " << enough << '\n';
  EXPECT_GE(exact, kProblems * 8 / 10);
  EXPECT_EQ(enough, kProblems);
}

/// It keeps less than it needs while a layer is computed again.
PlanningProblem problem_of_tall_encoder() {
  PlanningProblem problem = tiny_problem(8, 32, 1, 5);
  problem.model = tiny_model(1, 1);
  for (config::ModuleNode& node : problem.model.modules) {
    for (config::LayerRun& run : node.layers) {
      run.shape.vocab = std::min<std::int64_t>(run.shape.vocab, 1000);
      if (node.name == "vision" && run.shape.kind == config::LayerKind::kBlock) run.layers = 44;
    }
  }
  for (auto& batch : problem.batches)
    for (simulate::SampleSize& sample : batch)
      sample = {.tokens = 100, .patches = 4096, .items = 4};
  problem.cluster.device.reserve = {};
  return problem;
}

/// A chain that is cut for less memory holds no more, down to the least that it can hold.
TEST(ShortMemory, ChainsAreCutToHoldWhatTheLimitAllows) {
  PlanningProblem problem = problem_of_tall_encoder();
  PlanChoice choice{.microbatches = 16};
  choice.encoders = {ChainChoice{.mesh = {.pp = 7}, .recompute = RecomputePlan::kFull}};
  const auto peak_at = [&](Bytes limit) {
    problem.cluster.device.memory = limit;
    BatchDeals deals(problem);
    PlanJudge judge(problem, deals);
    return judge.judge(choice, ChainCutter(problem).cut(choice, judge), 0, 1).peak;
  };
  const Bytes fastest = peak_at({std::int64_t{1} << 40});
  const Bytes min = peak_at({1});
  EXPECT_LT(min.count, fastest.count / 100 * 90);
  for (int percent = 50; percent <= 110; percent += 2) {
    const std::int64_t limit = fastest.count / 100 * percent;
    EXPECT_LE(peak_at({limit}), std::max(Bytes{limit / 100 * 104}, min))
        << "at " << percent << " % of " << fastest;
  }
}

/// Whatever the closed form says of them.
TEST(ShortMemory, LeanestChoicesFitWhereHardlyAnyPlanDoes) {
  constexpr int kProblems = 24;
  int fitting = 0;
  for (std::uint64_t seed = 0; seed < kProblems; ++seed) {
    PlanningProblem problem = problem_of(seed);
    const BruteForce::Worth min = BruteForce(problem).run_front().front();
    problem.cluster.device.memory = {min.peak.count / 100 * 103};
    ChainTables tables(problem);
    const std::vector<LeanChoice> leanest = judge_leanest(problem, tables);
    const bool any = std::any_of(leanest.begin(), leanest.end(), [&](const LeanChoice& each) {
      return each.peak <= problem.memory();
    });
    if (!any) continue;
    ++fitting;
    EXPECT_FALSE(search_plan(problem).plans.empty()) << "seed " << seed;
  }
  std::cout << "of " << kProblems << " have a leanest choice that fits " << fitting << '\n';
  EXPECT_GE(fitting, kProblems * 8 / 10);
}

/// More passes of an encoder on the ranks of the backbone take longer, and hold less, up to how
/// unlike the microbatches of a pass are.
TEST(ShortMemory, LeanestChoicesHaveThePassesThatHoldTheLeast) {
  PlanningProblem problem = problem_of_tall_encoder();
  problem.space.placements = {config::Placement::kColocated};
  ChainTables tables(problem);
  BatchDeals deals(problem);
  PlanJudge judge(problem, deals);
  ChainCutter cutter(problem);
  const auto peak_of = [&](const PlanChoice& choice) {
    return judge.judge(choice, cutter.cut(choice, judge), 0, 1).peak;
  };
  const std::vector<Candidate> leanest = list_leanest(problem, tables, 8);
  ASSERT_EQ(leanest.size(), 8U);
  for (const Candidate& each : leanest) {
    PlanChoice choice = each.choice;
    const Bytes peak = peak_of(choice);
    std::int64_t& passes = choice.encoders[0].value().passes;
    const std::int64_t max =
        std::min(choice.microbatches, problem.global_samples() / choice.encoders[0]->replicas());
    for (passes = 1; passes <= max; passes *= 2)
      EXPECT_LE(peak.count, peak_of(choice).count / 100 * 105)
          << describe(problem, each.choice) << ", but " << passes << " passes";
  }
}

}  // namespace
}  // namespace tributary::plan
