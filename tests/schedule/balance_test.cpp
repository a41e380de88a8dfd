#include "schedule/balance/balance.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <numeric>
#include <thread>

#include "core/error.h"
#include "schedule/balance/balance_bound.h"
#include "tests/schedule/balance_oracle.h"
#include "tests/schedule/sample_mixture.h"

namespace tributary::schedule {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

std::vector<std::int64_t> counts_of(const Balance& found, std::int64_t buckets) {
  std::vector<std::int64_t> counts(static_cast<std::size_t>(buckets));
  for (const std::int32_t bucket : found.bucket_of) ++counts.at(bucket);
  return counts;
}

TEST(Balance, FindsTheGoldenOptima) {
  const OwnedProblem eight = {
      .buckets = 3, .dimensions = 2, .loads = {7, 3, 1, 8, 9, 2, 2, 9, 5, 5, 4, 6, 8, 1, 3, 7}};
  EXPECT_EQ(balance_bound(eight.view()), 14);
  EXPECT_EQ(balance(eight.view()).value, 15);
  EXPECT_EQ(balance(eight.view()).status, BalanceStatus::kOptimal);
  const OwnedProblem ten = {
      .buckets = 4, .dimensions = 2, .loads = {23, 11, 4, 25, 17, 3,  9, 19, 12, 14,
                                               31, 8,  6, 27, 15, 16, 2, 5,  20, 13}};
  EXPECT_EQ(balance_bound(ten.view()), 36);
  EXPECT_EQ(balance(ten.view()).value, 38);
}

TEST(Balance, EqualsBruteForceOnSmallCases) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    RandomStream random(seed, "brute force");
    OwnedProblem problem = random_problem(random, random.between(1, 8), random.between(1, 4),
                                          random.between(1, 3), random.between(0, 40));
    for (std::int64_t d = 0; seed % 2 == 1 && d < problem.dimensions; ++d)
      problem.held.push_back(random.between(0, 60));
    const Balance found = balance(problem.view());
    EXPECT_EQ(found.value, min_value(problem));
    EXPECT_EQ(found.value, balance_value(problem.view(), found.bucket_of));
    EXPECT_LE(balance_bound(problem.view()), found.value);
    EXPECT_EQ(found.lower_bound, found.value);
    EXPECT_EQ(found.status, BalanceStatus::kOptimal);
    EXPECT_EQ(found.gap(), 0);
  }
}

TEST(Balance, KeepsItsPromisesOnAnyProblem) {
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    SCOPED_TRACE(seed);
    RandomStream random(seed, "promises");
    OwnedProblem problem =
        random_problem(random, random.between(0, 120), random.between(1, 20), random.between(1, 4),
                       std::int64_t{1} << random.between(0, 40));
    for (std::int64_t d = 0; seed % 3 == 1 && d < problem.dimensions; ++d)
      problem.held.push_back(random.between(0, std::int64_t{1} << 40));
    const Balance found = balance(problem.view(), {.evaluations = 200'000});
    ASSERT_EQ(std::ssize(found.bucket_of), problem.items());
    EXPECT_EQ(found.value, balance_value(problem.view(), found.bucket_of));
    EXPECT_LE(found.lower_bound, found.value);
    EXPECT_GE(found.gap(), 0);
    const std::vector<std::int64_t> counts = counts_of(found, problem.buckets);
    const std::int64_t min = *std::min_element(counts.begin(), counts.end());
    EXPECT_EQ(min == 0, problem.items() < problem.buckets);
    EXPECT_EQ(found.status == BalanceStatus::kOptimal, found.value == found.lower_bound);
  }
}

TEST(Balance, FillsEveryBucketEvenWithItemsThatWeighNothing) {
  const OwnedProblem problem = {.buckets = 4, .dimensions = 2, .loads = {9, 9, 0, 0, 0, 0, 0, 0}};
  EXPECT_THAT(counts_of(balance(problem.view()), 4), testing::Each(1));
}

TEST(Balance, ComesNearTheBoundOnATrainingBatch) {
  for (std::uint64_t seed = 0; seed < 3; ++seed) {
    const Balance found = balance(mixture(seed, /*items=*/512, /*buckets=*/32).view());
    EXPECT_LT(found.gap(), 0.011) << seed;
  }
}

TEST(Balance, IsLevelInEveryBatchOfTheMixture) {
  // Encoder loads are whole tiles, and some batches leave a few tiles of room in all 256 buckets.
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    for (const auto& [ratio, max] : {std::pair(1.0, 0.011), std::pair(0.5, 0.001)}) {
      const std::vector<std::int64_t> loads = mixture_loads(2048, ratio, seed);
      const Balance found = balance({.buckets = 256, .dimensions = 2, .loads = loads});
      EXPECT_LE(found.gap(), max) << "ratio " << ratio;
    }
  }
}

TEST(Balance, DoesNotDependOnTheOrderOfTheItems) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    RandomStream random(seed, "order");
    // Few values, so that many items are alike.
    const OwnedProblem problem = random_problem(random, 60, 7, 2, seed % 2 == 0 ? 4 : 1'000'000);
    std::vector<std::size_t> order(60);
    std::iota(order.begin(), order.end(), 0);
    random.shuffle(std::span(order));
    OwnedProblem shuffled = problem;
    for (std::size_t item = 0; item < order.size(); ++item) {
      std::copy_n(problem.loads.begin() + 2 * order[item], 2, shuffled.loads.begin() + 2 * item);
    }
    const BalanceBudget budget = {.evaluations = 300'000};
    const Balance found = balance(problem.view(), budget);
    const Balance again = balance(shuffled.view(), budget);
    EXPECT_EQ(again.value, found.value);
    EXPECT_EQ(again.lower_bound, found.lower_bound);
    EXPECT_EQ(again.evaluations, found.evaluations);
  }
}

TEST(Balance, GivesEveryThreadTheSame) {
  const OwnedProblem problem = mixture(/*seed=*/5, /*items=*/300, /*buckets=*/24);
  const BalanceBudget budget = {.evaluations = 300'000};
  const Balance expected = balance(problem.view(), budget);
  std::vector<Balance> found(8);
  {
    std::vector<std::jthread> threads;
    for (Balance& mine : found) {
      threads.emplace_back([&] { mine = balance(problem.view(), budget); });
    }
  }
  for (const Balance& mine : found) {
    EXPECT_EQ(mine.bucket_of, expected.bucket_of);
    EXPECT_EQ(mine.evaluations, expected.evaluations);
  }
}

TEST(Balance, IsNeverWorseWithMoreEvaluations) {
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    RandomStream random(seed, "more");
    const OwnedProblem problem = random_problem(random, 200, 40, 2, 1'000'000'000);
    std::int64_t before = std::numeric_limits<std::int64_t>::max();
    for (const std::int64_t evaluations : {1, 1'000, 10'000, 100'000, 1'000'000}) {
      const Balance found = balance(problem.view(), {.evaluations = evaluations, .enough_gap = 0});
      EXPECT_LE(found.value, before) << "seed " << seed << ", " << evaluations;
      before = found.value;
    }
  }
}

TEST(Balance, StopsWhenTheClockSaysSo) {
  RandomStream random(1, "clock");
  const OwnedProblem problem = random_problem(random, 200, 50, 2, 1'000'000'000);
  int asked = 0;
  // The number of evaluations no longer counts once there is a clock.
  const BalanceBudget budget = {
      .evaluations = 1, .enough_gap = 0, .is_late = [&] { return ++asked == 5; }};
  const Balance found = balance(problem.view(), budget);
  EXPECT_EQ(asked, 5);
  EXPECT_EQ(found.status, BalanceStatus::kTruncated);
  EXPECT_GT(found.evaluations, 4 * 16384);
  EXPECT_EQ(found.value, balance_value(problem.view(), found.bucket_of));
}

TEST(Balance, RefusesWhatIsNoProblem) {
  const std::vector<std::int64_t> three = {1, 2, 3};
  EXPECT_THAT([&] { (void)balance({.buckets = 0, .dimensions = 1, .loads = three}); },
              ThrowsMessage<Error>(HasSubstr("number of buckets out of range; found: 0; expected: "
                                             "1 to 1048576")));
  EXPECT_THAT([&] { (void)balance({.buckets = 1, .dimensions = 2, .loads = three}); },
              ThrowsMessage<Error>(HasSubstr("no whole rows; found: 3 loads in 2 dimensions")));
  EXPECT_THAT([&] { (void)balance({.buckets = 1, .dimensions = 0, .loads = three}); },
              ThrowsMessage<Error>(HasSubstr("3 loads in 0 dimensions")));
  const std::vector<std::int64_t> negative = {1, 2, 3, -4};
  EXPECT_THAT([&] { (void)balance({.buckets = 1, .dimensions = 2, .loads = negative}); },
              ThrowsMessage<Error>(HasSubstr("load out of range; where: item 1, dimension 1; "
                                             "found: -4")));
  const std::vector<std::int64_t> large = {kMaxLoad, 0, 1, 0};
  EXPECT_THAT([&] { (void)balance({.buckets = 1, .dimensions = 2, .loads = large}); },
              ThrowsMessage<Error>(HasSubstr("where: item 1, dimension 0; found: 1")));
  const std::vector<std::int64_t> held{1, -1, 1};
  const auto with_held = [&](std::size_t dimensions) {
    return [&, dimensions] {
      (void)balance(
          {.buckets = 2, .dimensions = 2, .loads = {}, .held = std::span(held).first(dimensions)});
    };
  };
  EXPECT_THAT(with_held(3),
              ThrowsMessage<Error>(HasSubstr("hold other dimensions than items have")));
  EXPECT_THAT(with_held(2), ThrowsMessage<Error>(HasSubstr("held load out of range; found: -1")));
}

}  // namespace
}  // namespace tributary::schedule
