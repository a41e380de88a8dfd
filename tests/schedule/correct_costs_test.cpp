#include "schedule/correct_costs.h"

#include <algorithm>
#include <cmath>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "core/random.h"
#include "schedule/balance/balance.h"

namespace tributary::schedule {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

const CostKey kSlow = {.module = 0, .tp = 1, .size = 40, .longest = 0};
const CostKey kSound = {.module = 0, .tp = 1, .size = 44, .longest = 0};

/// Steps without any benefit, each taking `time`.
void pass(CostCorrector& corrector, std::int64_t steps, std::int64_t time = 1000) {
  for (std::int64_t step = 0; step < steps; ++step) {
    corrector.end_step({.time = {time},
                        .predicted = {1000},
                        .buckets = {},
                        .value_without = {10},
                        .value_used = {10}});
  }
}

void pass_saving(CostCorrector& corrector, std::int64_t steps, std::int64_t used,
                 std::int64_t time = 1000) {
  for (std::int64_t step = 0; step < steps; ++step) {
    corrector.end_step({.time = {time},
                        .predicted = {1000},
                        .buckets = {},
                        .value_without = {1000},
                        .value_used = {used}});
  }
}

TEST(QuarterOctave, IsFourTimesTheLogarithm) {
  EXPECT_EQ(quarter_octave(0), 0);
  EXPECT_EQ(quarter_octave(1), 0);
  EXPECT_EQ(quarter_octave(2), 4);
  EXPECT_EQ(quarter_octave(3), 6);
  for (std::int64_t count = 1; count < 100'000; ++count) {
    // No whole number but a power of two lies on a border, so this logarithm is exact enough.
    const auto expected =
        static_cast<std::int32_t>(std::floor(4 * std::log2(double(count)) + 1e-12));
    ASSERT_EQ(quarter_octave(count), expected) << count;
  }
}

TEST(CostCorrector, LearnsTheShapeThatIsSlow) {
  RandomStream random(1, "slow shape");
  CostCorrector corrector;
  pass(corrector, 20);
  for (int step = 0; step < 60; ++step) {
    std::vector<MeasuredBucket> buckets;
    for (int bucket = 0; bucket < 4; ++bucket) {
      const std::int64_t slow = random.between(100, 1000);
      const std::int64_t sound = random.between(100, 1000);
      buckets.push_back(
          {.shares = {{kSlow, {slow}}, {kSound, {sound}}}, .time = {slow + slow / 2 + sound}});
    }
    corrector.end_step({.time = {1000},
                        .predicted = {1000},
                        .buckets = buckets,
                        .value_without = {10},
                        .value_used = {9}});
  }
  EXPECT_NEAR(corrector.state().ratios.at(kSlow).ratio, 1.5, 0.05);
  EXPECT_NEAR(corrector.state().ratios.at(kSound).ratio, 1.0, 0.05);
  EXPECT_NEAR(double(corrector.correct(kSlow, {1000}).count), 1500, 50);
  EXPECT_EQ(corrector.correct({.module = 1}, {1000}), Nanoseconds{1000});
}

TEST(CostCorrector, UsesARatioOnlyAfterEnoughBuckets) {
  CostCorrector corrector({.rate = 1});
  pass(corrector, 20);
  for (int bucket = 1; bucket <= 5; ++bucket) {
    const std::vector<MeasuredBucket> buckets = {{.shares = {{kSlow, {100}}}, .time = {200}}};
    corrector.end_step({.time = {1}, .predicted = {1}, .buckets = buckets});
    EXPECT_EQ(corrector.judge(kSlow, {100}), Nanoseconds{200});
    EXPECT_EQ(corrector.correct(kSlow, {100}), Nanoseconds{bucket < 5 ? 100 : 200});
  }
}

TEST(CostCorrector, KeepsRatiosWithinTheirLimits) {
  CostCorrector corrector({.rate = 1});
  pass(corrector, 20);
  const auto measure = [&](std::int64_t time) {
    const std::vector<MeasuredBucket> buckets = {{.shares = {{kSlow, {100}}}, .time = {time}}};
    corrector.end_step({.time = {1}, .predicted = {1}, .buckets = buckets});
    return corrector.state().ratios.at(kSlow).ratio;
  };
  EXPECT_EQ(measure(100'000), 4);
  EXPECT_EQ(measure(1), 0.5);
}

TEST(CostCorrector, SwitchesItselfOffWhereNothingIsSlow) {
  CostCorrector corrector;
  EXPECT_FALSE(corrector.is_measuring());
  pass(corrector, 20);
  EXPECT_TRUE(corrector.is_measuring());
  pass(corrector, 20);
  EXPECT_EQ(corrector.state().cost, 0);
  pass(corrector, 49);
  EXPECT_TRUE(corrector.is_measuring());
  pass(corrector, 1);
  EXPECT_FALSE(corrector.is_measuring());
}

TEST(CostCorrector, WeighsTheBenefitAgainstTheCostOfMeasuring) {
  // Measuring costs 40 of 1,040; the first five steps do not count.
  for (const auto& [used, stays_on] : {std::pair(970, false), std::pair(955, true)}) {
    CostCorrector corrector;
    pass(corrector, 5, 9'999);
    pass(corrector, 15, 1000);
    pass(corrector, 20, 1040);
    EXPECT_NEAR(corrector.state().cost, 40.0 / 1040, 1e-12);
    pass_saving(corrector, 50, used);
    EXPECT_EQ(corrector.is_measuring(), stays_on) << used;
  }
}

TEST(CostCorrector, LooksAgainAfterARestAndKeepsItsRatios) {
  CostCorrector corrector({.rate = 1});
  pass(corrector, 20);
  for (int step = 0; step < 20; ++step) {
    const std::vector<MeasuredBucket> buckets = {{.shares = {{kSlow, {100}}}, .time = {130}}};
    corrector.end_step({.time = {1000}, .predicted = {1000}, .buckets = buckets});
  }
  pass(corrector, 50);
  ASSERT_FALSE(corrector.is_measuring());
  EXPECT_EQ(corrector.correct(kSlow, {1000}), Nanoseconds{1300});
  pass(corrector, 499);
  EXPECT_FALSE(corrector.is_measuring());
  pass(corrector, 1);
  EXPECT_TRUE(corrector.is_measuring());
  pass(corrector, 50);
  EXPECT_FALSE(corrector.is_measuring());
}

TEST(CostCorrector, LooksAgainAtOnceWhenStepsLeaveTheirPrediction) {
  CostCorrector corrector;
  pass(corrector, 40);
  pass(corrector, 50, 1200);  // steps take 1.2 times the prediction as a rule
  ASSERT_FALSE(corrector.is_measuring());
  pass(corrector, 20, 1300);  // 8 % above the rule
  pass(corrector, 4, 1400);
  pass(corrector, 1, 1200);  // not five in a row
  pass(corrector, 4, 1400);
  EXPECT_FALSE(corrector.is_measuring());
  pass(corrector, 1, 1400);
  EXPECT_TRUE(corrector.is_measuring());
}

/// A run whose true costs differ from the table for some shapes; measuring costs 4 % of a step.
class AnomalousRun {
 public:
  AnomalousRun(int slow_shapes, double slowdown) {
    RandomStream random(7, "anomalous run");
    for (int item = 0; item < 96; ++item) {
      const std::int32_t shape = static_cast<std::int32_t>(random.below(kShapes));
      items_.push_back({{.size = shape}, {random.between(200, 2000) * 1000}});
      truth_.push_back(shape < slow_shapes
                           ? std::llround(double(items_.back().time.count) * (1 + slowdown))
                           : items_.back().time.count);
    }
  }

  /// Whether it is still measured after the first window.
  [[nodiscard]] bool stays_on() {
    CostCorrector corrector;
    const std::vector<std::int32_t> plain = arrange(table());
    for (int step = 0; step < 90; ++step) {
      std::vector<std::int64_t> corrected;
      for (const PredictedShare& item : items_) {
        corrected.push_back(corrector.correct(item.key, item.time).count);
      }
      const std::vector<std::int32_t> used = arrange(corrected);
      const double overhead = corrector.is_measuring() ? 1 / 0.96 : 1;
      const auto judge = [&](const std::vector<std::int32_t>& bucket_of) {
        return judge_arrangement(corrector, items_, 1, bucket_of, kBuckets);
      };
      std::vector<MeasuredBucket> buckets;
      if (corrector.is_measuring()) buckets = measure(used);
      // The whole step is much longer than what one arrangement changes.
      corrector.end_step({.time = {std::llround(1e9 * overhead)},
                          .predicted = {1'000'000'000},
                          .buckets = buckets,
                          .value_without = judge(plain),
                          .value_used = judge(used)});
    }
    return corrector.is_measuring();
  }

  /// What knowing the true costs saves.
  [[nodiscard]] double true_benefit() {
    return 1 - double(value(truth_, arrange(truth_))) / double(value(truth_, arrange(table())));
  }

 private:
  static constexpr int kShapes = 12;
  static constexpr std::int64_t kBuckets = 12;

  [[nodiscard]] static BalanceProblem problem(const std::vector<std::int64_t>& loads) {
    return {.buckets = kBuckets, .dimensions = 1, .loads = loads};
  }
  [[nodiscard]] static std::int64_t value(const std::vector<std::int64_t>& loads,
                                          const std::vector<std::int32_t>& bucket_of) {
    return balance_value(problem(loads), bucket_of);
  }
  [[nodiscard]] static std::vector<std::int32_t> arrange(const std::vector<std::int64_t>& loads) {
    return balance(problem(loads), {.evaluations = 20'000}).bucket_of;
  }
  [[nodiscard]] std::vector<std::int64_t> table() const {
    std::vector<std::int64_t> loads;
    for (const PredictedShare& item : items_) loads.push_back(item.time.count);
    return loads;
  }
  [[nodiscard]] std::vector<MeasuredBucket> measure(
      const std::vector<std::int32_t>& bucket_of) const {
    std::vector<std::map<CostKey, std::int64_t>> predicted(kBuckets);
    std::vector<MeasuredBucket> buckets(kBuckets);
    for (std::size_t item = 0; item < items_.size(); ++item) {
      predicted[bucket_of[item]][items_[item].key] += items_[item].time.count;
      buckets[bucket_of[item]].time.count += truth_[item];
    }
    for (std::int64_t bucket = 0; bucket < kBuckets; ++bucket) {
      for (const auto& [key, time] : predicted[bucket]) {
        buckets[bucket].shares.push_back({key, {time}});
      }
    }
    return buckets;
  }

  std::vector<PredictedShare> items_;
  std::vector<std::int64_t> truth_;
};

TEST(CostCorrector, StaysOnWhereKnowingTheTruthPaysForMeasuring) {
  int on = 0;
  int off = 0;
  for (const int slow_shapes : {0, 1, 3, 6}) {
    for (const double slowdown : {0.0, 0.1, 0.25, 0.5, 1.0}) {
      AnomalousRun run(slow_shapes, slowdown);
      const double net = run.true_benefit() - 0.04;
      if (std::abs(net) < 0.015) continue;  // too close to call within a window
      const bool stays_on = run.stays_on();
      EXPECT_EQ(stays_on, net > 0)
          << slow_shapes << " shapes slower by " << slowdown << ": " << net;
      (stays_on ? on : off) += 1;
    }
  }
  EXPECT_GE(on, 4);
  EXPECT_GE(off, 4);
}

TEST(CostCorrector, GoesOnFromItsStateAsIfNeverStopped) {
  RandomStream random(3, "resume");
  CostCorrector whole;
  CostCorrector part;
  for (int step = 0; step < 800; ++step) {
    if (step % 37 == 0) part = CostCorrector({}, CorrectionState(part.state()));
    std::vector<MeasuredBucket> buckets;
    if (whole.is_measuring()) {
      buckets.push_back({.shares = {{kSlow, {random.between(1, 99)}}, {kSound, {50}}},
                         .time = {random.between(50, 200)}});
    }
    const MeasuredStep measured = {.time = {random.between(900, 1100)},
                                   .predicted = {1000},
                                   .buckets = buckets,
                                   .value_without = {1000},
                                   .value_used = {random.between(900, 1000)}};
    whole.end_step(measured);
    part.end_step(measured);
    ASSERT_EQ(part.state(), whole.state()) << step;
  }
}

TEST(CostCorrector, RefusesWhatCannotBe) {
  CostCorrector corrector;
  EXPECT_THAT([&] { corrector.end_step({.time = {0}, .predicted = {5}}); },
              ThrowsMessage<Error>(HasSubstr("time of a step is not above 0; found: 0 ns measured, "
                                             "5 ns predicted")));
  const std::vector<MeasuredBucket> buckets(2);
  EXPECT_THAT(
      [&] { corrector.end_step({.time = {1}, .predicted = {1}, .buckets = buckets}); },
      ThrowsMessage<Error>(HasSubstr("step that was not to be measured; found: 2 buckets")));
  const auto refuses = [](const CorrectionOptions& options, const std::string& words) {
    EXPECT_THAT([&] { CostCorrector{options}; }, ThrowsMessage<Error>(HasSubstr(words)));
  };
  refuses({.warm_up_steps = 5}, "out of range; where: warm_up_steps; found: 5");
  refuses({.discarded_steps = -1}, "where: discarded_steps; found: -1");
  refuses({.window_steps = 0}, "where: window_steps");
  refuses({.rest_windows = 0}, "where: rest_windows");
  refuses({.rate = 0}, "where: rate; found: 0; expected: above 0, at most 1");
  refuses({.rate = std::nan("")}, "where: rate; found: nan");
  refuses({.lowest_ratio = 0}, "where: lowest_ratio");
  refuses({.highest_ratio = 0.9}, "where: highest_ratio");
  refuses({.least_buckets = 0}, "where: least_buckets");
  refuses({.residual_band = 0}, "where: residual_band");
  refuses({.residual_steps = 0}, "where: residual_steps");
}

}  // namespace
}  // namespace tributary::schedule
