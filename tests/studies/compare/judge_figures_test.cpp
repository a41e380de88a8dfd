#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "studies/compare/compare.h"
#include "tests/studies/compare/round_numbers.h"

namespace tributary::studies {
namespace {

TEST(JudgeFigures, ComputesEveryQuantity) {
  using enum config::FigureQuantity;
  config::Study study;
  study.settings.resize(2);
  study.settings[0].name = "a";
  study.settings[0].run_samples = 18'000;
  study.settings[1].name = "b";
  const auto figure = [](config::FigureQuantity quantity, const char* method, const char* against,
                         double min, double max) {
    return config::PublishedFigure{.quantity = quantity,
                                   .setting = "a",
                                   .method = method,
                                   .against = against,
                                   .min = min,
                                   .max = max};
  };
  study.figures = {figure(kSpeedup, "x", "y", 2, 2),        // 5 a second over 2.5
                   figure(kSpeedup, "x", "y", 2.5, 4),      // below the range
                   figure(kHours, "x", "", 0.8, 0.8),       // 18,000 at 5 a second
                   figure(kMfu, "y", "", 0.25, 0.25),       //
                   figure(kMfuGap, "y", "x", 0.2, 0.2),     //
                   figure(kIdleReduction, "x", "y", 1, 1),  // 0.1*4/5 against 0.4*4/2.5
                   figure(kSpeedup, "x", "z", 1, 1),        // z has no plan
                   {.setting = "b", .method = "x", .against_setting = "a", .min = 2, .max = 2},
                   figure(kBubbleReduction, "x", "y", 1, 1),  // 0.05 and 0.2 of the same
                   {.quantity = kBubbleReduction,
                    .setting = "b",  // where x has none
                    .method = "x",
                    .against_setting = "a",
                    .min = 1,
                    .max = 1}};
  using config::RankedBy;
  study.orders = {{"", RankedBy::kStep, {{"a", "x", ""}, {"a", "y", ""}}},
                  {"", RankedBy::kStep, {{"a", "y", ""}, {"a", "x", ""}}},
                  {"", RankedBy::kStep, {{"a", "x", ""}, {"a", "z", ""}}},
                  {"", RankedBy::kSpeedup, {{"a", "x", "y"}, {"a", "x", "x"}}},
                  {"", RankedBy::kSpeedup, {{"a", "y", "x"}, {"a", "x", "x"}}},
                  {"", RankedBy::kSpeedup, {{"a", "x", "y"}, {"b", "x", "y"}}}};
  Comparison comparison = round_numbers();
  comparison.settings[0].methods[0].bubble_share = 0.05;
  comparison.settings[0].methods[1].bubble_share = 0.2;
  judge_figures(study, comparison);
  const auto found = [&](std::size_t i) { return *comparison.figures.at(i).found; };
  EXPECT_DOUBLE_EQ(found(0), 2);
  EXPECT_DOUBLE_EQ(comparison.figures[0].deviation, 0);
  EXPECT_DOUBLE_EQ(comparison.figures[1].deviation, 2 / 2.5 - 1);
  EXPECT_DOUBLE_EQ(found(2), 1.0);
  EXPECT_DOUBLE_EQ(comparison.figures[2].deviation, 0.25);
  EXPECT_DOUBLE_EQ(comparison.figures[3].deviation, 0.2 / 0.25 - 1);
  EXPECT_DOUBLE_EQ(found(4), 0.2);
  EXPECT_DOUBLE_EQ(found(5), 1 - 0.08 / 0.64);
  EXPECT_FALSE(comparison.figures[6].found.has_value());
  EXPECT_DOUBLE_EQ(found(7), 2);  // 10 samples a second against 5
  EXPECT_TRUE(comparison.orders[0].holds);
  EXPECT_FALSE(comparison.orders[1].holds);
  EXPECT_FALSE(comparison.orders[2].holds);
  EXPECT_TRUE(comparison.orders[3].holds);
  EXPECT_THAT(comparison.orders[3].values, testing::ElementsAre(2, 1));
  EXPECT_FALSE(comparison.orders[4].holds);
  EXPECT_FALSE(comparison.orders[5].holds);  // b has no y
  EXPECT_DOUBLE_EQ(found(8), 1 - 0.04 / 0.32);
  EXPECT_FALSE(comparison.figures[9].found.has_value());
  const FigureCount count = count_within(comparison, 0.15);
  EXPECT_EQ(count.within, 5);  // 0, 4, 5, 7 and 8
  EXPECT_EQ(count.all, 10);
}

TEST(JudgeFigures, TakesTheMeanOverSettings) {
  config::Study study;
  study.settings.resize(2);
  study.settings[0].name = "a";
  study.settings[1].name = "b";
  const auto mean_mfu = [](const char* method, std::vector<std::string> settings) {
    return config::PublishedFigure{.quantity = config::FigureQuantity::kMfu,
                                   .method = method,
                                   .settings = std::move(settings),
                                   .min = 0.5,
                                   .max = 0.5};
  };
  study.figures = {mean_mfu("x", {"a", "b"}), mean_mfu("y", {"a", "b"}),
                   mean_mfu("x", {"a", "left out"})};
  Comparison comparison = round_numbers();
  judge_figures(study, comparison);
  ASSERT_EQ(comparison.figures.size(), 2U);
  EXPECT_DOUBLE_EQ(*comparison.figures[0].found, 0.35);
  EXPECT_DOUBLE_EQ(comparison.figures[0].deviation, 0.35 / 0.5 - 1);
  EXPECT_FALSE(comparison.figures[1].found.has_value());  // b has no y
}

TEST(JudgeFigures, KeepsOfARangeOnlyWhatIsInside) {
  const auto kept = [](double found, double min, double max, std::optional<int> digits,
                       double tolerance = 0.15) {
    config::Study study;
    study.settings.resize(1);
    study.settings[0].name = "a";
    study.figures = {{.setting = "a", .method = "x", .against = "y", .min = min, .max = max}};
    study.figures[0].digits = digits;
    Comparison comparison = round_numbers();
    comparison.settings[0].methods[1].step_s = found * comparison.settings[0].methods[0].step_s;
    judge_figures(study, comparison);
    return is_kept(comparison.figures.at(0), tolerance);
  };
  for (const double inside : {1.1, 1.25, 1.4}) EXPECT_TRUE(kept(inside, 1.1, 1.4, {}));
  for (const double outside : {1.09, 1.401, 1.434}) EXPECT_FALSE(kept(outside, 1.1, 1.4, {}));
  // As it is printed.
  for (const double inside : {1.051, 1.25, 1.449}) EXPECT_TRUE(kept(inside, 1.1, 1.4, 1));
  for (const double outside : {1.049, 1.451}) EXPECT_FALSE(kept(outside, 1.1, 1.4, 1));
  EXPECT_TRUE(kept(1.0996, 1.10, 1.42, 2));
  EXPECT_FALSE(kept(1.0949, 1.10, 1.42, 2));
  EXPECT_TRUE(kept(2.2, 2, 2, {}));
  EXPECT_FALSE(kept(2.2, 2, 2, {}, 0.05));
  FigureResult result{.figure = {.min = 1, .max = 1}};
  EXPECT_FALSE(is_kept(result, 0.15));  // no plan
}

TEST(JudgeFigures, SaysWhichOrdersAreTies) {
  const auto judged = [](double x, double y) {
    config::Study study;
    study.settings.resize(2);
    study.settings[0].name = "a";
    study.settings[1].name = "b";
    using enum config::RankedBy;
    study.orders = {{"", kStep, {{"a", "x", ""}, {"a", "y", ""}}},
                    {"", kMfu, {{"a", "x", ""}, {"b", "x", ""}}},
                    {"", kMfu, {{"a", "x", ""}, {"none", "x", ""}}}};
    Comparison comparison = round_numbers();
    comparison.settings[0].methods[0].step_s = x;
    comparison.settings[0].methods[1].step_s = y;
    comparison.settings[0].methods[0].mfu = 1e-3 * y;
    comparison.settings[1].methods[0].mfu = 1e-3 * x;
    judge_figures(study, comparison);
    EXPECT_EQ(comparison.orders.size(), 2U);  // not of a setting that was not run
    EXPECT_EQ(comparison.orders[0].holds, comparison.orders[1].holds);
    EXPECT_EQ(comparison.orders[0].is_tie, comparison.orders[1].is_tie);
    return std::pair(comparison.orders[0].holds, comparison.orders[0].is_tie);
  };
  EXPECT_EQ(judged(998.9, 1000), std::pair(true, false));
  EXPECT_EQ(judged(999.5, 1000), std::pair(true, true));
  EXPECT_EQ(judged(1000, 999.5), std::pair(true, true));
  EXPECT_EQ(judged(1000, 998.9), std::pair(false, false));
}

}  // namespace
}  // namespace tributary::studies
