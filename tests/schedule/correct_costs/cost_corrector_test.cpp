#include "schedule/correct_costs/cost_corrector.h"

#include <algorithm>
#include <cmath>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "core/random.h"

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
                        .table = {1000},
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
                        .table = {1000},
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
  for (const double noise : {0.0, 0.03}) {
    SCOPED_TRACE(noise);
    RandomStream random(1, "slow shape");
    CostCorrector corrector;
    pass(corrector, 20);
    for (int step = 0; step < 60; ++step) {
      std::vector<MeasuredBucket> buckets;
      for (int bucket = 0; bucket < 4; ++bucket) {
        const std::int64_t slow = random.between(100'000, 1'000'000);
        const std::int64_t sound = random.between(100'000, 1'000'000);
        const double time = (1.5 * double(slow) + double(sound)) * (1 + noise * random.normal());
        buckets.push_back(
            {.shares = {{kSlow, {slow}}, {kSound, {sound}}}, .time = {std::llround(time)}});
      }
      corrector.end_step({.time = {1000},
                          .predicted = {1000},
                          .table = {1000},
                          .buckets = buckets,
                          .value_without = {10},
                          .value_used = {9}});
    }
    EXPECT_NEAR(corrector.state().ratios.at(kSlow).ratio, 1.5, 0.05);
    EXPECT_NEAR(corrector.state().ratios.at(kSound).ratio, 1.0, 0.05);
    EXPECT_NEAR(double(corrector.correct(kSlow, {1000}).count), 1500, 50);
    EXPECT_EQ(corrector.correct({.module = 1}, {1000}), Nanoseconds{1000});
  }
}

TEST(CostCorrector, UsesARatioOnlyAfterEnoughBuckets) {
  CostCorrector corrector;
  pass(corrector, 20);
  for (int bucket = 1; bucket <= 5; ++bucket) {
    const std::vector<MeasuredBucket> buckets = {{.shares = {{kSlow, {100}}}, .time = {200}}};
    corrector.end_step({.time = {1}, .predicted = {1}, .table = {1}, .buckets = buckets});
    EXPECT_EQ(corrector.judge(kSlow, {100}), Nanoseconds{200});
    EXPECT_EQ(corrector.correct(kSlow, {100}), Nanoseconds{bucket < 5 ? 100 : 200});
  }
}

TEST(CostCorrector, KeepsRatiosWithinTheirLimits) {
  for (const auto& [time, ratio] : {std::pair(100'000, 4.0), std::pair(1, 0.5)}) {
    CostCorrector corrector;
    pass(corrector, 20);
    for (int step = 0; step < 20; ++step) {
      const std::vector<MeasuredBucket> buckets = {{.shares = {{kSlow, {100}}}, .time = {time}}};
      corrector.end_step({.time = {1}, .predicted = {1}, .table = {1}, .buckets = buckets});
    }
    EXPECT_NEAR(corrector.state().ratios.at(kSlow).ratio, ratio, 1e-3);
  }
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

TEST(CostCorrector, DoesNotTakeWhatItSavesOrALargerBatchForTheCostOfMeasuring) {
  CostCorrector corrector;
  RandomStream random(2, "batches");
  const auto pass_batches = [&](std::int64_t steps, double slowness, double saved) {
    for (std::int64_t step = 0; step < steps; ++step) {
      const std::int64_t table = random.between(500'000, 1'500'000);
      corrector.end_step({.time = {std::llround(double(table) * slowness * (1 - saved))},
                          .predicted = {table},
                          .table = {table},
                          .buckets = {},
                          .value_without = {1'000'000},
                          .value_used = {std::llround(1'000'000 * (1 - saved))}});
    }
  };
  pass_batches(20, 1.2, 0);
  pass_batches(20, 1.2 / 0.96, 0.1);
  EXPECT_NEAR(corrector.state().cost, 0.04, 1e-5);
}

TEST(CostCorrector, LooksAgainAfterARestAndKeepsItsRatios) {
  CostCorrector corrector;
  pass(corrector, 20);
  for (int step = 0; step < 20; ++step) {
    const std::vector<MeasuredBucket> buckets = {{.shares = {{kSlow, {100}}}, .time = {130}}};
    corrector.end_step({.time = {1000}, .predicted = {1000}, .table = {1000}, .buckets = buckets});
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
                                   .table = {1000},
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
  EXPECT_THAT([&] { corrector.end_step({.time = {0}, .predicted = {5}, .table = {7}}); },
              ThrowsMessage<Error>(HasSubstr("time of a step is not above 0; found: 0 ns measured, "
                                             "5 ns predicted, 7 ns by the table")));
  EXPECT_THAT([&] { corrector.end_step({.time = {1}, .predicted = {5}, .table = {0}}); },
              ThrowsMessage<Error>(HasSubstr("5 ns predicted, 0 ns by the table")));
  const std::vector<MeasuredBucket> buckets(2);
  EXPECT_THAT(
      [&] {
        corrector.end_step({.time = {1}, .predicted = {1}, .table = {1}, .buckets = buckets});
      },
      ThrowsMessage<Error>(HasSubstr("step that was not to be measured; found: 2 buckets")));
  const auto refuses = [](const CorrectionOptions& options, const std::string& words) {
    EXPECT_THAT([&] { CostCorrector{options}; }, ThrowsMessage<Error>(HasSubstr(words)));
  };
  refuses({.warm_up_steps = 5}, "out of range; where: warm_up_steps; found: 5");
  refuses({.discarded_steps = -1}, "where: discarded_steps; found: -1");
  refuses({.window_steps = 0}, "where: window_steps");
  refuses({.rest_windows = 0}, "where: rest_windows");
  refuses({.memory_steps = 0}, "where: memory_steps; found: 0; expected: 1 or above");
  refuses({.weight_of_one = 0}, "where: weight_of_one; found: 0; expected: above 0, and finite");
  refuses({.weight_of_one = std::nan("")}, "where: weight_of_one; found: nan");
  refuses({.lowest_ratio = 0}, "where: lowest_ratio");
  refuses({.highest_ratio = 0.9}, "where: highest_ratio");
  refuses({.min_buckets = 0}, "where: min_buckets");
  refuses({.residual_band = 0}, "where: residual_band");
  refuses({.residual_steps = 0}, "where: residual_steps");
}

}  // namespace
}  // namespace tributary::schedule
