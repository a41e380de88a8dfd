#include "data/loader/data_order.h"

#include <cmath>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits>
#include <set>

#include "core/error.h"

namespace tributary::data {
namespace {

TEST(DataOrder, EveryEpochHoldsEachItemOnceInAnotherOrder) {
  const DataOrder order(5, {1.0}, {37});
  std::vector<std::vector<std::int64_t>> epochs(4);
  for (std::int64_t epoch = 0; epoch < 4; ++epoch) {
    for (std::int64_t i = 0; i < 37; ++i) epochs[epoch].push_back(order.item_at(0, epoch * 37 + i));
    EXPECT_EQ(std::set<std::int64_t>(epochs[epoch].begin(), epochs[epoch].end()).size(), 37u);
  }
  EXPECT_NE(epochs[0], epochs[1]);
  EXPECT_NE(epochs[1], epochs[2]);
}

TEST(DataOrder, SourcesComeAsOftenAsTheirWeight) {
  const std::vector<double> weights{5, 0, 3, 2};
  const DataOrder order(9, weights, {10, 0, 10, 10});
  std::vector<int> drawn(4);
  const int draws = 200000;
  for (int i = 0; i < draws; ++i) ++drawn[order.source_at(i)];
  EXPECT_EQ(drawn[1], 0);
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const double share = weights[i] / 10;
    // Five standard deviations of a binomial count.
    EXPECT_NEAR(drawn[i], draws * share, 5 * std::sqrt(draws * share * (1 - share)) + 1e-9);
  }
}

TEST(DataOrder, DependsOnSeedAndNothingElse) {
  const DataOrder a(1, {1, 1}, {100, 100});
  const DataOrder same(1, {1, 1}, {100, 100});
  const DataOrder other(2, {1, 1}, {100, 100});
  int equal_sources = 0;
  int equal_items = 0;
  for (std::int64_t i = 99; i >= 0; --i) {  // order of asking does not matter
    EXPECT_EQ(a.source_at(i), same.source_at(i));
    EXPECT_EQ(a.item_at(1, i), same.item_at(1, i));
    EXPECT_EQ(a.replacement(0, i, 3), same.replacement(0, i, 3));
    equal_sources += a.source_at(i) == other.source_at(i);
    equal_items += a.item_at(1, i) == other.item_at(1, i);
  }
  EXPECT_LT(equal_sources, 80);
  EXPECT_LT(equal_items, 10);
}

TEST(DataOrder, RefusesWeightsThatDrawNothing) {
  const auto message = [](std::vector<double> weights) -> std::string {
    try {
      const DataOrder order(0, std::move(weights), {1, 1});
    } catch (const Error& error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_THAT(message({0, 0}), testing::HasSubstr("no source has a weight above 0"));
  EXPECT_THAT(message({1, -2}), testing::HasSubstr("found: -2; expected: 0 or above"));
  EXPECT_THAT(message({1, std::numeric_limits<double>::quiet_NaN()}),
              testing::HasSubstr("weight of a source"));
}

}  // namespace
}  // namespace tributary::data
