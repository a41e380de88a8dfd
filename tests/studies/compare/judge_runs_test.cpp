#include "studies/compare/judge_runs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/studies/compare/round_numbers.h"

namespace tributary::studies {
namespace {

MethodResult ran(const std::string& name, double simulated, std::vector<double> rounds) {
  MethodResult method{.method = name, .step_s = simulated};
  method.run = MethodRun{.rounds_s = std::move(rounds)};
  return method;
}

TEST(JudgeRuns, MedianIsOfSortedRounds) {
  EXPECT_EQ(MethodRun{}.median_s(), std::nullopt);
  EXPECT_EQ(MethodRun{.rounds_s = {3}}.median_s(), 3);
  EXPECT_EQ((MethodRun{.rounds_s = {9, 1, 2}}.median_s()), 2);
  EXPECT_EQ((MethodRun{.rounds_s = {4, 1, 9, 2}}.median_s()), 3);
}

TEST(JudgeRuns, CountsPairsInTheMeasuredOrder) {
  SettingResult setting;
  setting.methods = {
      ran("a", 1, {1.0, 1.1, 1.2}),
      ran("b", 2, {0.9, 1.15, 1.3}),  // after a as simulated, though their rounds overlap
      ran("c", 3, {0.5, 0.5, 0.5}),   // simulated as the slowest, measured as the fastest
      ran("d", 3, {2, 2, 2}),         // simulated as fast as c
      ran("failed", 4, {}),           // no round ended well
      ran("copy", 1, {1.0, 1.1, 1.2}),
      {.method = "never"}};
  setting.methods[5].run->same_as = "a";
  setting.methods[6].run = MethodRun{.not_run = "no form"};
  // ab, ad and bd are right; ac, bc and the tie cd are not. All but ab are apart.
  const PairOrder order = judge_pairs(setting);
  EXPECT_EQ(order.pairs, 6);
  EXPECT_EQ(order.right, 3);
  EXPECT_EQ(order.apart, 5);
  EXPECT_EQ(order.apart_right, 2);
}

TEST(JudgeRuns, FiguresAndOrdersAreOfMeasuredSteps) {
  using config::FigureQuantity;
  using config::RankedBy;
  config::Study study;
  study.settings.resize(1);
  study.settings[0].name = "a";
  study.figures = {
      {.setting = "a", .method = "x", .against = "y", .min = 2, .max = 2},
      {.quantity = FigureQuantity::kMfu, .setting = "a", .method = "x", .min = 1, .max = 1},
      {.quantity = FigureQuantity::kIdleReduction,
       .setting = "a",
       .method = "x",
       .against = "y",
       .min = 1,
       .max = 1},
      {.setting = "a", .method = "z", .against = "y", .min = 2, .max = 2}};
  study.orders = {{"", RankedBy::kStep, {{"a", "x", ""}, {"a", "y", ""}}}};
  Comparison comparison = round_numbers();
  comparison.settings.resize(1);
  std::vector<MethodResult>& methods = comparison.settings[0].methods;
  methods[0].run = MethodRun{.rounds_s = {5}};  // simulated 2 at an MFU of 0.4
  methods[1].run = MethodRun{.rounds_s = {4}};
  methods[2].run = MethodRun{.not_run = "no form"};
  judge_figures(study, comparison);
  judge_measured(study, comparison);
  EXPECT_DOUBLE_EQ(*comparison.figures[0].found, 2);
  EXPECT_DOUBLE_EQ(*comparison.figures[0].measured, 4.0 / 5);
  EXPECT_DOUBLE_EQ(*comparison.figures[1].measured, 0.4 * 2 / 5);
  EXPECT_EQ(comparison.figures[2].measured, std::nullopt);
  EXPECT_EQ(comparison.figures[3].measured, std::nullopt);
  EXPECT_TRUE(comparison.orders[0].holds);
  EXPECT_FALSE(comparison.orders[0].measured_holds);
  EXPECT_THAT(comparison.orders[0].measured, testing::ElementsAre(5, 4));
}

}  // namespace
}  // namespace tributary::studies
