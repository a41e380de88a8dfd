#include "train/optimizer/learning_rate.h"

#include <cmath>
#include <gtest/gtest.h>

namespace tributary::train {
namespace {

using config::Decay;

config::ScheduleSection make_schedule(Decay decay, std::int64_t warmup, double final_ratio,
                                      std::int64_t decay_steps = 0) {
  return {.decay = decay,
          .warmup_steps = warmup,
          .decay_steps = decay_steps,
          .final_ratio = final_ratio};
}

TEST(LearningRateFactor, RisesInEqualStepsToThePeak) {
  for (const Decay decay :
       {Decay::kConstant, Decay::kLinear, Decay::kCosine, Decay::kWarmupStableDecay}) {
    const auto schedule = make_schedule(decay, /*warmup=*/4, /*final_ratio=*/0.1, 5);
    for (int step = 0; step < 4; ++step)
      EXPECT_DOUBLE_EQ(learning_rate_factor(schedule, 100, step), 0.25 * (step + 1));
    EXPECT_DOUBLE_EQ(learning_rate_factor(schedule, 100, 4), 1);
  }
}

TEST(LearningRateFactor, StaysAtThePeakWhenConstant) {
  const auto schedule = make_schedule(Decay::kConstant, 0, 0);
  for (const int step : {0, 50, 99, 500}) EXPECT_EQ(learning_rate_factor(schedule, 100, step), 1);
}

TEST(LearningRateFactor, FallsOnALineFromWarmUpToTheFinalRatio) {
  const auto schedule = make_schedule(Decay::kLinear, 20, 0.2);
  EXPECT_DOUBLE_EQ(learning_rate_factor(schedule, 100, 20), 1);
  EXPECT_DOUBLE_EQ(learning_rate_factor(schedule, 100, 60), 0.6);
  EXPECT_DOUBLE_EQ(learning_rate_factor(schedule, 100, 99), 1 - 0.8 * 79 / 80);
  EXPECT_DOUBLE_EQ(learning_rate_factor(schedule, 100, 100), 0.2);
}

TEST(LearningRateFactor, FallsOnHalfACosine) {
  const auto schedule = make_schedule(Decay::kCosine, 10, 0.1);
  EXPECT_DOUBLE_EQ(learning_rate_factor(schedule, 110, 60), 0.55);
  EXPECT_NEAR(learning_rate_factor(schedule, 110, 35), 0.1 + 0.45 * (1 + std::sqrt(0.5)), 1e-12);
  EXPECT_NEAR(learning_rate_factor(schedule, 110, 85), 0.1 + 0.45 * (1 - std::sqrt(0.5)), 1e-12);
  EXPECT_DOUBLE_EQ(learning_rate_factor(schedule, 110, 1000), 0.1);
}

TEST(LearningRateFactor, HoldsThePeakUntilTheDecayOfWarmupStableDecay) {
  const auto schedule = make_schedule(Decay::kWarmupStableDecay, 10, 0, 20);
  EXPECT_DOUBLE_EQ(learning_rate_factor(schedule, 100, 11), 1);
  EXPECT_DOUBLE_EQ(learning_rate_factor(schedule, 100, 80), 1);
  EXPECT_DOUBLE_EQ(learning_rate_factor(schedule, 100, 90), 0.5);
  EXPECT_NEAR(learning_rate_factor(schedule, 100, 99), 0.05, 1e-12);
}

}  // namespace
}  // namespace tributary::train
