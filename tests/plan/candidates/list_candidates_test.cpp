#include "plan/candidates/list_candidates.h"

#include <gtest/gtest.h>
#include <set>

#include "plan/candidates/list_degrees.h"
#include "plan/chains/estimate_step.h"
#include "plan/search/search_plan.h"
#include "tests/plan/search/brute_force.h"
#include "tests/plan/search/exact_case.h"

namespace tributary::plan {
namespace {

constexpr std::int64_t kAll = 1'000'000;

PlanningProblem with_memory(std::int64_t mebibytes, std::uint64_t seed) {
  PlanningProblem problem = tiny_problem(4, 12, 1, seed);
  problem.cluster.device.memory = {mebibytes << 20};
  problem.cluster.device.reserve = {};
  return problem;
}

CandidateList list(const PlanningProblem& problem, const CandidateEffort& effort) {
  ChainTables tables(problem);
  return list_candidates(problem, tables, effort);
}

TEST(ListCandidates, WhatMayFitIsNotJudgedByTheFastestThatMay) {
  // What surely fits with so much caution is what does at all.
  constexpr double kOnlySure = StepEstimate::kMayFit / StepEstimate::kSurelyFits;
  int wide = 0;
  for (std::int64_t memory = 200; memory <= 700; memory += 5) {
    const PlanningProblem problem = with_memory(memory, 3);
    if (list(problem, {.keep = kAll, .within = 1e9, .caution = kOnlySure}).estimates > 0) break;
    const std::vector<Candidate> all = list(problem, {.keep = kAll, .within = 1e9}).candidates;
    EXPECT_EQ(list(problem, {.keep = kAll}).candidates.size(), all.size()) << memory << " MiB";
    if (!all.empty() && all.back().estimate > 2 * all.front().estimate) ++wide;
  }
  EXPECT_GE(wide, 1);
}

TEST(ListCandidates, SmallBatchesHaveMorePlaces) {
  const auto places = [](std::int64_t samples) {
    return usual_candidates(tiny_problem(4, samples, 1, 0));
  };
  EXPECT_EQ(places(4096), 200);
  EXPECT_EQ(places(2048), 200);
  EXPECT_EQ(places(512), 800);
  EXPECT_EQ(places(8), 1600);
}

TEST(ListCandidates, MoreCautionFindsWhatLessMemoryDoes) {
  std::size_t colocated = 0;
  for (std::int64_t memory = 400; memory <= 1000; memory += 20) {
    std::set<std::string> cautious;
    const PlanningProblem more = with_memory(memory / 4 * 5, 3);
    for (const Candidate& each :
         list(more, {.keep = kAll, .within = 1e9, .caution = 1.25}).candidates)
      cautious.insert(describe(more, each.choice));
    for (const Candidate& each :
         list(with_memory(memory, 3), {.keep = kAll, .within = 1e9}).candidates) {
      EXPECT_TRUE(cautious.contains(describe(more, each.choice)))
          << memory << " MiB: " << describe(more, each.choice);
      if (each.choice.has_colocated()) ++colocated;
    }
  }
  EXPECT_GE(colocated, 100U);
}

TEST(ListCandidates, NothingIsLeftOutWhereAllHaveRoom) {
  for (std::int64_t memory = 300; memory <= 900; memory += 50) {
    PlanningProblem problem = with_memory(memory, 3);
    problem.space.placements = {config::Placement::kInline, config::Placement::kSeparate};
    const CandidateList all = list(problem, {.keep = kAll, .within = 1e9});
    const CandidateList kept = list(problem, {.keep = all.estimates, .within = 1e9});
    EXPECT_EQ(kept.candidates.size(), all.candidates.size()) << memory << " MiB";
  }
}

TEST(ListCandidates, ABoundHoldsWhereCausalWindowsMakeLongSamplesCheaper) {
  // A window leaves less of two samples apart than of two of their mean length.
  PlanningProblem problem = tiny_problem(1, 2, 0, 3);
  problem.batches = {{{.tokens = 4'096}, {.tokens = 32'768}}};
  problem.cluster.device.memory = {std::int64_t{80} << 30};
  for (config::LayerRun& run : problem.model.modules.front().layers)
    if (run.shape.kind == config::LayerKind::kBlock) run.shape.window = 4'096;
  problem.space.schedules = {config::PipelineOrder::k1f1b};
  BruteForce brute(problem);
  const Nanoseconds best = brute.run();
  ChainTables tables(problem);
  const Nanoseconds bound = list_candidates(problem, tables).lower_bound;
  EXPECT_LE(bound, best) << brute.plan();
  EXPECT_GE(bound.count, best.count / 2);
  EXPECT_GT(list_cells(problem, tables).min_bound, double(best.count));  // by costs as they are
  EXPECT_LE(search_plan(problem).certificate.lower_bound, best);
}

TEST(ListCandidates, ABoundHoldsWhereShortSamplesLieWithinWindows) {
  // Windows that are not causal are concave too: at the mean length no sample lies within them.
  for (const std::int64_t shorter : {512, 2'048, 3'584}) {
    PlanningProblem problem = tiny_problem(1, 2, 0, 3);
    std::vector<simulate::SampleSize> batch(130, {.tokens = shorter});
    batch.front().tokens = batch.back().tokens = 32'768;
    problem.batches = {batch};
    problem.cluster.device.memory = {std::int64_t{80} << 30};
    for (config::LayerRun& run : problem.model.modules.front().layers) {
      if (run.shape.kind != config::LayerKind::kBlock) continue;
      run.shape.window = 4'096;
      run.shape.causal = false;
    }
    const PlanSearch search = search_plan(problem);
    ASSERT_FALSE(search.plans.empty()) << shorter << " tokens";
    ChainTables tables(problem);
    EXPECT_LE(list_candidates(problem, tables).lower_bound, search.certificate.value)
        << shorter << " tokens";
    EXPECT_NE(search.certificate.status, Status::kOptimal) << shorter << " tokens";
  }
}

}  // namespace
}  // namespace tributary::plan
