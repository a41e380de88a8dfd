#include "data/loader/data_order.h"

#include <cmath>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits>
#include <set>

#include "core/error.h"

namespace tributary::data {
namespace {

std::vector<MixtureShare> two_sources() { return {{.size = 100}, {.size = 100}}; }

TEST(DataOrder, EveryEpochHoldsEachItemOnceInAnotherOrder) {
  const DataOrder order(5, {{.weight = 1, .size = 37}});
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
  const DataOrder order(9, {{.weight = 5, .size = 10},
                            {.weight = 0},
                            {.weight = 3, .size = 10},
                            {.weight = 2, .size = 10}});
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
  const DataOrder a(1, two_sources());
  const DataOrder same(1, two_sources());
  const DataOrder other(2, two_sources());
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

TEST(DataOrder, ASourceIsDrawnFromItsFirstIndexOn) {
  const DataOrder order(3, {{.size = 10}, {.weight = 3, .size = 10, .first_index = 500}});
  int late = 0;
  for (int i = 0; i < 500; ++i) EXPECT_EQ(order.source_at(i), 0);
  for (int i = 500; i < 4500; ++i) late += order.source_at(i);
  EXPECT_NEAR(late, 3000, 150);
}

TEST(DataOrder, RefusesWeightsThatDrawNothing) {
  const auto message = [](double first, double second, std::int64_t start) -> std::string {
    try {
      const DataOrder order(
          0, {{.weight = first, .size = 1, .first_index = start}, {.weight = second, .size = 1}});
    } catch (const Error& error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_THAT(message(0, 0, 0), testing::HasSubstr("no source has a weight above 0"));
  EXPECT_THAT(message(1, 0, 32), testing::HasSubstr("at the first step"));
  EXPECT_THAT(message(1, -2, 0), testing::HasSubstr("found: -2; expected: 0 or above"));
  EXPECT_THAT(message(1, std::numeric_limits<double>::quiet_NaN(), 0),
              testing::HasSubstr("weight of a source"));
}

}  // namespace
}  // namespace tributary::data
