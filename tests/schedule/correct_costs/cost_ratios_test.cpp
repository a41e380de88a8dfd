#include "schedule/correct_costs/cost_ratios.h"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>

#include "core/random.h"

namespace tributary::schedule {
namespace {

constexpr double kLowest = 0.5;
constexpr double kHighest = 4;

CostKey key_of(std::int32_t size) { return {.size = size}; }

/// A bucket of some keys with shares between 1 and 100; what it took by the true ratios.
MeasuredBucket draw_bucket(RandomStream& random, const std::vector<double>& truth, int max_keys,
                           double noise) {
  MeasuredBucket bucket;
  double time = 0;
  std::vector<std::int32_t> keys;
  for (std::int32_t key = 0; key < std::ssize(truth); ++key) keys.push_back(key);
  random.shuffle(std::span(keys));
  keys.resize(static_cast<std::size_t>(random.between(1, max_keys)));
  for (const std::int32_t key : keys) {
    const std::int64_t share = random.between(1, 100) * 1'000'000;
    bucket.shares.push_back({key_of(key), {share}});
    time += static_cast<double>(share) * truth[key];
  }
  bucket.time = {std::llround(time * (1 + noise * random.normal()))};
  return bucket;
}

std::vector<double> draw_ratios(RandomStream& random, int keys) {
  std::vector<double> ratios;
  for (int key = 0; key < keys; ++key) ratios.push_back(0.6 + 2.4 * random.uniform());
  return ratios;
}

TEST(RatioEquations, FindTheTruthFromAsManyBucketsAsKeys) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    RandomStream random(seed, "exact");
    const std::vector<double> truth = draw_ratios(random, 8);
    RatioEquations equations;
    for (int bucket = 0; bucket < 40; ++bucket)
      equations.add(draw_bucket(random, truth, 4, 0), kLowest, kHighest);
    for (const auto& [key, ratio] : equations.solve(1e-9))
      EXPECT_NEAR(ratio, truth[key.size], 1e-5);
  }
}

TEST(RatioEquations, MeetTheNormalEquations) {
  // (A + w) r = b + w, with A and b summed anew from the buckets.
  RandomStream random(1, "normal equations");
  const std::vector<double> truth = draw_ratios(random, 5);
  constexpr double kWeight = 0.3;
  std::vector<MeasuredBucket> buckets;
  RatioEquations equations;
  for (int bucket = 0; bucket < 30; ++bucket) {
    buckets.push_back(draw_bucket(random, truth, 5, 0.1));
    equations.add(buckets.back(), kLowest, kHighest);
  }
  const std::map<CostKey, double> solved = equations.solve(kWeight);
  ASSERT_EQ(solved.size(), 5);
  for (std::int32_t key = 0; key < 5; ++key) {
    double left = kWeight * (solved.at(key_of(key)) - 1);
    for (const MeasuredBucket& bucket : buckets) {
      double predicted = 0, expected = 0, own = 0;
      for (const PredictedShare& share : bucket.shares) {
        const auto time = static_cast<double>(share.time.count);
        predicted += time;
        expected += time * solved.at(share.key);
        if (share.key == key_of(key)) own = time;
      }
      left += own * (expected - static_cast<double>(bucket.time.count)) / predicted / predicted;
    }
    EXPECT_NEAR(left, 0, 1e-9);
  }
}

TEST(RatioEquations, LearnASmallShareUnderNoise) {
  // One key is a twentieth of every bucket that it comes in.
  RandomStream random(2, "small share");
  RatioEquations equations;
  for (int bucket = 0; bucket < 3000; ++bucket) {
    const std::int64_t large = random.between(80, 120) * 1'000'000;
    const std::int64_t small = bucket % 2 * large / 20;
    const double time = (1.2 * double(large) + 2.5 * double(small)) * (1 + 0.03 * random.normal());
    equations.add(
        {.shares = {{key_of(0), {large}}, {key_of(1), {small}}}, .time = {std::llround(time)}},
        kLowest, kHighest);
  }
  EXPECT_NEAR(equations.solve(1e-3).at(key_of(0)), 1.2, 0.005);
  EXPECT_NEAR(equations.solve(1e-3).at(key_of(1)), 2.5, 0.125);
}

TEST(RatioEquations, ShareWhatKeysThatAlwaysComeTogetherHaveInCommon) {
  RatioEquations equations;
  for (int bucket = 0; bucket < 100; ++bucket)
    equations.add({.shares = {{key_of(0), {300}}, {key_of(1), {100}}}, .time = {600}}, kLowest,
                  kHighest);
  const std::map<CostKey, double> ratios = equations.solve(1e-3);
  EXPECT_NEAR(0.75 * ratios.at(key_of(0)) + 0.25 * ratios.at(key_of(1)), 1.5, 1e-3);
  EXPECT_GT(ratios.at(key_of(0)), 1);
  EXPECT_GT(ratios.at(key_of(1)), 1);
}

TEST(RatioEquations, ForgetWhatIsLongAgo) {
  RatioEquations equations;
  const auto measure = [&](std::int64_t time, int steps) {
    for (int step = 0; step < steps; ++step) {
      equations.forget(0.9);
      equations.add({.shares = {{key_of(0), {100}}}, .time = {time}}, kLowest, kHighest);
    }
  };
  measure(300, 100);
  EXPECT_NEAR(equations.solve(1e-3).at(key_of(0)), 3, 1e-3);
  measure(100, 10);  // 0.9^10 = 0.35 of the weight is old
  EXPECT_NEAR(equations.solve(1e-3).at(key_of(0)), 1 + 2 * std::pow(0.9, 10), 2e-3);
}

TEST(RatioEquations, TakeAnOutlierAsNoMoreThanTheLimit) {
  RatioEquations equations;
  for (int bucket = 0; bucket < 99; ++bucket)
    equations.add({.shares = {{key_of(0), {100}}}, .time = {100}}, kLowest, kHighest);
  equations.add({.shares = {{key_of(0), {100}}}, .time = {1'000'000}}, kLowest, kHighest);
  EXPECT_NEAR(equations.solve(1e-3).at(key_of(0)), 1.03, 1e-4);
}

TEST(RatioEquations, AreTakenBackAsTheyWere) {
  RandomStream random(4, "taken back");
  const std::vector<double> truth = draw_ratios(random, 6);
  RatioEquations equations;
  for (int bucket = 0; bucket < 20; ++bucket)
    equations.add(draw_bucket(random, truth, 6, 0.1), kLowest, kHighest);
  EXPECT_EQ(RatioEquations::from(equations.products(), equations.measured()), equations);
  EXPECT_TRUE(RatioEquations().solve(1).empty());
}

}  // namespace
}  // namespace tributary::schedule
