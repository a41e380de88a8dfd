#include "studies/dflop/search_3d.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "tests/studies/dflop/problem_3d_oracle.h"

namespace tributary::studies {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

struct Golden {
  SyntheticModel model;
  std::int64_t devices, samples;
  double seconds;
  Degrees encoder, backbone;
  std::int64_t microbatches;
};

const Golden kGolden[] = {
    {kModelA, 64, 512, 12.2169, {1, 1, 10}, {1, 9, 6}, 85},
    {kModelA, 256, 2048, 12.1652, {1, 1, 39}, {1, 7, 31}, 66},
    {kModelA, 1024, 2048, 3.7850, {1, 1, 136}, {2, 2, 222}, 9},
    {kModelB, 64, 512, 37.2897, {1, 4, 12}, {1, 4, 4}, 99},
    {kModelB, 256, 2048, 36.9566, {1, 5, 38}, {1, 3, 22}, 93},
    {kModelB, 1024, 2048, 10.6976, {1, 3, 248}, {2, 2, 70}, 28},
    {kModelC, 64, 512, 97.1103, {1, 1, 2}, {1, 31, 2}, 256},
    {kModelC, 256, 2048, 96.4221, {1, 1, 6}, {1, 50, 5}, 409},
    {kModelC, 1024, 2048, 30.9047, {1, 1, 24}, {2, 25, 20}, 102},
};

TEST(Search3d, FindsTheReferenceOptima) {
  for (const Golden& golden : kGolden) {
    const Problem3d problem = synthetic_problem(golden.model, golden.devices, golden.samples);
    const Search3dResult found = search_3d(problem);
    SCOPED_TRACE(str(golden.devices, " devices, ", golden.seconds, " s"));
    ASSERT_EQ(found.plans.size(), 1);
    EXPECT_NEAR(found.plans[0].seconds, golden.seconds, 5.1e-5);
    EXPECT_EQ(found.plans[0].encoder, golden.encoder);
    EXPECT_EQ(found.plans[0].backbone, golden.backbone);
    EXPECT_EQ(found.plans[0].microbatches, golden.microbatches);
    EXPECT_EQ(found.certificate.status, plan::Status::kOptimal);
    EXPECT_EQ(found.certificate.gap(), 0);
    EXPECT_TRUE(is_valid(problem, found.plans[0]));
    EXPECT_NEAR(step_seconds(problem, found.plans[0]), found.plans[0].seconds, 1e-9);
  }
}

TEST(Search3d, EqualsBruteForceOnTheReferenceTables) {
  for (const SyntheticModel& model : {kModelA, kModelB, kModelC}) {
    const Problem3d problem = synthetic_problem(model, 32, 128);
    EXPECT_NEAR(search_3d(problem).plans.at(0).seconds, best_by_brute_force(problem).seconds, 1e-9);
  }
}

TEST(Search3d, EqualsBruteForceOnRandomProblems) {
  int infeasible = 0;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(seed);
    RandomStream random(seed, "search 3d");
    const Problem3d problem = random_problem(random);
    const Plan3d expected = best_by_brute_force(problem);
    const Search3dResult found = search_3d(problem);
    if (std::isinf(expected.seconds)) {
      ++infeasible;
      EXPECT_TRUE(found.plans.empty());
      EXPECT_EQ(found.certificate.status, plan::Status::kInfeasible);
      EXPECT_FALSE(found.certificate.limit.empty());
      continue;
    }
    ASSERT_EQ(found.plans.size(), 1);
    EXPECT_NEAR(found.plans[0].seconds, expected.seconds, 1e-12 * expected.seconds);
    EXPECT_TRUE(is_valid(problem, found.plans[0]));
    EXPECT_TRUE(explain_infeasible(problem).empty());
  }
  EXPECT_GT(infeasible, 5);
}

TEST(Search3d, KeepsTheBestPairsInOrder) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    RandomStream random(seed, "keep");
    Problem3d problem = random_problem(random);
    problem.memory_bytes = 1e12;
    std::vector<double> expected;  // the best of every pair
    for (std::int64_t devices = 1; devices < problem.devices; ++devices) {
      for (const Degrees& e : list_degrees(problem.encoder, devices, problem.global_samples)) {
        for (const Degrees& l :
             list_degrees(problem.backbone, problem.devices - devices, problem.global_samples)) {
          double best = std::numeric_limits<double>::infinity();
          for (std::int64_t count = 1; count * l.dp <= problem.global_samples; ++count) {
            best = std::min(best, step_seconds(problem, {e, l, count, 0}));
          }
          expected.push_back(best);
        }
      }
    }
    std::sort(expected.begin(), expected.end());
    expected.resize(std::min<std::size_t>(expected.size(), 20));
    const Search3dResult found = search_3d(problem, {.keep = 20});
    ASSERT_EQ(found.plans.size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      EXPECT_NEAR(found.plans[i].seconds, expected[i], 1e-12 * expected[i]);
    }
  }
}

TEST(Search3d, SaysWhereTheBudgetEndedIt) {
  const Problem3d problem = synthetic_problem(kModelA, 256, 2048);
  const Search3dResult whole = search_3d(problem);
  for (const std::int64_t budget : {1, 10, 50, 200}) {
    const Search3dResult cut = search_3d(problem, {.evaluations = budget});
    EXPECT_EQ(cut.certificate.status, plan::Status::kTruncated);
    EXPECT_EQ(cut.certificate.evaluations, budget);
    EXPECT_LE(cut.certificate.lower_bound, whole.certificate.value);
    EXPECT_GE(cut.certificate.value, whole.certificate.value);
  }
}

TEST(Search3d, LooksAtFewPlans) {
  EXPECT_LT(search_3d(synthetic_problem(kModelC, 1024, 2048)).certificate.evaluations, 10'000);
}

TEST(Search3d, SaysWhatBindsAndByHowMuch) {
  Problem3d problem = synthetic_problem(kModelC, 16, 64);
  EXPECT_THAT(search_3d(problem).certificate.limit,
              testing::MatchesRegex("memory: encoder tp .*; backbone tp .* microbatches needs the "
                                    "least, [0-9]+ B on a device of the first stage of backbone, "
                                    "[0-9]+ B above the [0-9]+ B that a plan may hold"));
  problem.devices = 1;
  EXPECT_THAT(search_3d(problem).certificate.limit, HasSubstr("degrees: no split of 1 devices"));
}

TEST(Search3d, NamesWhatCannotBeUsed) {
  Problem3d problem = synthetic_problem(kModelA, 16, 64);
  problem.backbone.sample_flops = std::nan("");
  EXPECT_THAT([&] { (void)search_3d(problem); },
              ThrowsMessage<Error>(HasSubstr("where: backbone.sample_flops; found: nan")));
  problem = synthetic_problem(kModelA, 16, 64);
  problem.encoder.degrees.clear();
  EXPECT_THAT([&] { (void)search_3d(problem); },
              ThrowsMessage<Error>(HasSubstr("without a profiled degree; where: vision")));
  problem = synthetic_problem(kModelA, 16, 64);
  std::swap(problem.encoder.degrees[0], problem.encoder.degrees[1]);
  EXPECT_THAT([&] { (void)search_3d(problem); }, ThrowsMessage<Error>(HasSubstr("tp 1 after 2")));
  problem = synthetic_problem(kModelA, 0, 64);
  EXPECT_THAT([&] { (void)search_3d(problem); },
              ThrowsMessage<Error>(HasSubstr("where: devices; found: 0")));
  problem = synthetic_problem(kModelA, 16, 0);
  EXPECT_THAT([&] { (void)search_3d(problem); },
              ThrowsMessage<Error>(HasSubstr("where: global_samples; found: 0")));
  problem = synthetic_problem(kModelA, 16, 64);
  problem.encoder.layers = 0;
  EXPECT_THAT([&] { (void)search_3d(problem); },
              ThrowsMessage<Error>(HasSubstr("module without layers; where: vision")));
}

}  // namespace
}  // namespace tributary::studies
