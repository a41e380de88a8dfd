#include "tests/plan/search/brute_force.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <iostream>
#include <limits>
#include <map>

#include "core/text.h"
#include "tests/core/draws.h"
#include "tests/plan/search/exact_case.h"

namespace tributary::plan {
namespace {

using config::PipelineOrder;
using config::Placement;
using config::RecomputePlan;

/// Small problems of every kind: with and without an encoder, equal and unequal samples, more and
/// less memory, slow and fast links.
PlanningProblem random_problem(std::uint64_t seed) {
  RandomStream random(seed, "search_plan_test");
  const int encoders = static_cast<int>(random.below(2));
  PlanningProblem problem =
      tiny_problem(random.between(1, encoders == 0 ? 4 : 3), random.between(3, 8), encoders, seed);
  problem.model = tiny_model(random.between(1, 3), encoders);
  if (random.below(3) == 0)
    for (auto& batch : problem.batches)
      for (simulate::SampleSize& sample : batch) sample = problem.batches[0][0];
  if (random.below(3) == 0) problem.frozen = {encoders > 0 ? "vision" : "backbone"};
  if (encoders == 0) problem.frozen.clear();
  const std::int64_t memories[] = {600, 900, 2000, 8000};
  problem.cluster.device.memory = {memories[random.below(4)] << 20};
  problem.cluster.device.reserve = {};
  for (config::LinkLevel& level : problem.cluster.levels)
    level.bytes_per_s *= random.below(2) == 0 ? 1 : 0.05;
  problem.space.schedules = {PipelineOrder::k1f1b};
  if (random.below(2) == 0) problem.space.schedules.push_back(PipelineOrder::kZbH1);
  if (random.below(2) == 0) problem.space.schedules.push_back(PipelineOrder::kInterleaved);
  problem.space.chunks = {2};
  problem.space.recompute = {RecomputePlan::kNone, RecomputePlan::kFull};
  return problem;
}

TEST(SearchPlan, NoPlanOfTheSpaceIsBelowItsBoundAndHardlyAnyBelowItsAnswer) {
  int optimal = 0;
  int feasible = 0;
  std::uint64_t best_colocated = 0;
  std::int64_t of_colocated = 0;
  std::int64_t plans = 0;
  double worst = 1;
  const std::uint64_t problems = draws(200);
  for (std::uint64_t seed = 0; seed < problems; ++seed) {
    const PlanningProblem problem = random_problem(seed);
    const PlanSearch search = search_plan(problem);
    BruteForce brute(problem);
    const Nanoseconds best = brute.run();
    if (search.plans.empty()) {
      EXPECT_EQ(best.count, std::numeric_limits<std::int64_t>::max())
          << "seed " << seed << ": " << brute.plan() << "; " << search.certificate.limit;
      EXPECT_THAT(search.certificate.limit, testing::HasSubstr("memory"));
      continue;
    }
    ++feasible;
    plans += brute.plans();
    of_colocated += brute.colocated();
    if (brute.plan().find("colocated") != std::string::npos) ++best_colocated;
    const Certificate& certificate = search.certificate;
    EXPECT_EQ(certificate.value, search.plans.front().step);
    SCOPED_TRACE(str("seed ", seed, ": ", brute.plan()));
    const double ratio = hold_beside(problem, search, best);
    worst = std::max(worst, ratio);
    if (ratio == 1) ++optimal;
  }
  std::cout << of_colocated << " of " << plans << " plans colocated, the best of " << best_colocated
            << " problems; " << feasible << " problems with a plan, " << optimal
            << " answers equal to brute force, worst ratio " << worst << '\n';
  EXPECT_GE(optimal, feasible * 95 / 100);
  EXPECT_GE(best_colocated, problems / 20);
}

TEST(SearchPlan, NoPlanIsBelowTheBoundWhereOneBatchIsSmaller) {
  std::uint64_t feasible = 0;
  double tightness = 0;
  const std::uint64_t problems = draws(60);
  for (std::uint64_t seed = 0; seed < problems; ++seed) {
    PlanningProblem problem = random_problem(seed);
    // A batch that takes fewer microbatches, whose launches are dear.
    for (simulate::SampleSize& sample : problem.batches.back())
      sample.tokens = (sample.tokens + 3) / 4;
    problem.cluster.device.launch_s = seed % 2 == 0 ? 1e-4 : 5e-6;
    problem.cluster.device.microbatch_s = seed % 3 == 0 ? 0.1 : 0;
    SCOPED_TRACE(str("seed ", seed));
    const std::optional<double> bound = hold_bound(problem);
    if (!bound) continue;
    ++feasible;
    tightness += *bound;
  }
  EXPECT_GE(feasible, problems * 2 / 3);
  std::cout << "the bound is " << tightness / static_cast<double>(feasible)
            << " of the best on the mean\n";
  EXPECT_GE(tightness / static_cast<double>(feasible), 0.5);
}

TEST(SearchPlan, NoPlanIsBelowTheBoundWhereLongTextsTakeTurnsWithImages) {
  // A mean sample has much of both, no sample has: texts pay nothing for a pass of the encoder.
  int tight = 0;
  for (std::int64_t memory = 820; memory <= 960; memory += 20) {
    PlanningProblem problem = tiny_problem(2, 6, 1, 0);
    problem.model = tiny_model(1, 1);
    problem.space.placements = {config::Placement::kInline};
    problem.space.schedules = {PipelineOrder::k1f1b};
    problem.space.recompute = {RecomputePlan::kNone};
    for (auto& batch : problem.batches)
      for (std::size_t i = 0; i < batch.size(); ++i)
        batch[i] = i % 2 == 0 ? simulate::SampleSize{.tokens = 12'000}
                              : simulate::SampleSize{.tokens = 1'600, .patches = 6'144, .items = 6};
    problem.cluster.device.memory = {memory << 20};
    problem.cluster.device.reserve = {};
    SCOPED_TRACE(str(memory, " MiB"));
    if (hold_bound(problem)) ++tight;
  }
  EXPECT_GE(tight, 2);
}

/// The encoder's own level: beside a backbone that recomputes nothing it is the encoder that does.
TEST(SearchPlan, RecomputesAnInlineEncoderByItself) {
  PlanningProblem problem = tiny_problem(2, 8, 1, 3);
  problem.model = tiny_model(6, 1);
  for (config::ModuleNode& module : problem.model.modules)
    if (module.name == "vision") module.layers.back().layers = 8;
  for (std::vector<simulate::SampleSize>& batch : problem.batches)
    for (simulate::SampleSize& sample : batch)
      sample = {.tokens = 2'000, .patches = 4'096, .items = 4};
  problem.space.placements = {config::Placement::kInline};
  problem.space.schedules = {PipelineOrder::k1f1b};
  problem.space.recompute = {RecomputePlan::kNone, RecomputePlan::kFull};
  problem.cluster.device.reserve = {};
  int mixed = 0;
  for (std::int64_t memory = 900; memory <= 3'000; memory += 150) {
    problem.cluster.device.memory = {memory << 20};
    SCOPED_TRACE(str(memory, " MiB"));
    const PlanSearch search = search_plan(problem);
    BruteForce brute(problem);
    const Nanoseconds best = brute.run();
    if (search.plans.empty()) {
      EXPECT_TRUE(brute.plan().empty()) << brute.plan();
      continue;
    }
    hold_beside(problem, search, best);
    const FoundPlan& found = search.plans.front();
    const RecomputePlan inside = found.choice.inside.of(0);
    EXPECT_EQ(found.plan.find("vision")->recompute, inside);
    if (inside != found.choice.backbone.recompute) ++mixed;
  }
  EXPECT_GE(mixed, 2);
}

/// Small problems with images and sound: frozen encoders, slow links, little memory among them.
PlanningProblem random_omni_problem(std::uint64_t seed) {
  RandomStream random(seed, "two_media_test");
  PlanningProblem problem = tiny_omni_problem(random.between(1, 3), random.between(3, 6), seed);
  problem.model = tiny_omni_model(random.between(1, 2));
  mix(problem, static_cast<Mixed>(random.below(4)));
  const std::vector<std::string> frozen[] = {{}, {}, {"audio"}, {"audio", "vision"}};
  problem.frozen = frozen[random.below(4)];
  const std::int64_t memories[] = {900, 1300, 2500, 8000};
  problem.cluster.device.memory = {memories[random.below(4)] << 20};
  problem.cluster.device.reserve = {};
  for (config::LinkLevel& level : problem.cluster.levels)
    level.bytes_per_s *= random.below(2) == 0 ? 1 : 0.05;
  problem.space.schedules = {PipelineOrder::k1f1b};
  if (random.below(3) == 0) problem.space.schedules.push_back(PipelineOrder::kZbH1);
  problem.space.recompute = {RecomputePlan::kNone, RecomputePlan::kFull};
  return problem;
}

TEST(TwoMedia, NoPlanIsBelowTheBoundAndHardlyAnyBelowTheAnswer) {
  std::uint64_t feasible = 0;
  std::uint64_t optimal = 0;
  std::int64_t plans = 0;
  double worst = 1;
  std::map<std::string, int> best_placed;
  const std::uint64_t problems = draws(40);
  for (std::uint64_t seed = 0; seed < problems; ++seed) {
    const PlanningProblem problem = random_omni_problem(seed);
    const PlanSearch search = search_plan(problem);
    BruteForce brute(problem);
    const Nanoseconds best = brute.run();
    plans += brute.plans();
    if (search.plans.empty()) {
      EXPECT_EQ(best.count, std::numeric_limits<std::int64_t>::max())
          << "seed " << seed << ": " << brute.plan() << "; " << search.certificate.limit;
      continue;
    }
    ++feasible;
    for (const char* name : {"audio inline", "audio tp", "audio colocated", "vision inline",
                             "vision tp", "vision colocated"})
      if (brute.plan().find(name) != std::string::npos) ++best_placed[name];
    SCOPED_TRACE(str("seed ", seed, ": ", brute.plan()));
    const double ratio = hold_beside(problem, search, best);
    worst = std::max(worst, ratio);
    if (ratio == 1) ++optimal;
  }
  std::cout << feasible << " problems with one of " << plans << " plans, " << optimal
            << " answers equal to brute force, worst ratio " << worst << "; the best have";
  for (const auto& [place, times] : best_placed) std::cout << ' ' << place << ' ' << times << ',';
  std::cout << '\n';
  EXPECT_GE(feasible, problems * 3 / 4);
  EXPECT_GE(optimal, feasible * 85 / 100);
  EXPECT_GE(best_placed.size(), 5U);
}

TEST(TwoMedia, NoPlanIsBelowTheBoundWhereTextsImagesAndSoundTakeTurns) {
  // A mean sample has all three, no sample has: texts pay nothing for a pass of either encoder.
  int tight = 0;
  for (std::int64_t memory = 900; memory <= 1200; memory += 20) {
    PlanningProblem problem = tiny_omni_problem(2, 6, 0);
    problem.model = tiny_omni_model(1);
    problem.space.placements = {Placement::kInline};
    problem.space.schedules = {PipelineOrder::k1f1b};
    problem.space.recompute = {RecomputePlan::kNone};
    mix(problem, Mixed::kInTurns);
    problem.cluster.device.memory = {memory << 20};
    problem.cluster.device.reserve = {};
    SCOPED_TRACE(str(memory, " MiB"));
    if (hold_bound(problem)) ++tight;
  }
  EXPECT_GE(tight, 2);
}

}  // namespace
}  // namespace tributary::plan
