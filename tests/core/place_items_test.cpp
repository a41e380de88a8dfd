#include "core/place_items.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <numeric>

#include "core/random.h"

namespace tributary {
namespace {

using Numbers = std::vector<std::int64_t>;

TEST(PlaceItems, GivesTheCostliestFirstToTheLeastLoaded) {
  Numbers loads{0, 0};
  EXPECT_EQ(place_items(Numbers{3, 5, 4, 2}, loads), (Numbers{1, 0, 1, 0}));
  EXPECT_EQ(loads, (Numbers{7, 7}));
}

TEST(PlaceItems, TakesEqualItemsInTheirOrderToTheLowestOfEqualPlaces) {
  Numbers loads{0, 0, 0};
  EXPECT_EQ(place_items(Numbers{2, 2, 2, 2}, loads), (Numbers{0, 1, 2, 0}));
}

TEST(PlaceItems, AddsToWhatPlacesHave) {
  Numbers loads{9, 1, 4};
  EXPECT_EQ(place_items(Numbers{2, 3}, loads), (Numbers{1, 1}));
  EXPECT_EQ(loads, (Numbers{9, 6, 4}));
  EXPECT_TRUE(place_items({}, loads).empty());
  EXPECT_EQ(loads, (Numbers{9, 6, 4}));
}

TEST(PlaceItems, KeepsTheLargestLoadWithinOneItemOfTheMean) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    RandomStream stream(seed, "place items");
    Numbers costs(static_cast<std::size_t>(stream.between(0, 20)));
    for (std::int64_t& cost : costs) cost = stream.between(0, 30);
    Numbers loads(static_cast<std::size_t>(stream.between(1, 6)));
    const Numbers places = place_items(costs, loads);
    Numbers found(loads.size());
    for (std::size_t i = 0; i < costs.size(); ++i)
      found.at(static_cast<std::size_t>(places[i])) += costs[i];
    EXPECT_EQ(found, loads);
    const std::int64_t sum = std::accumulate(costs.begin(), costs.end(), std::int64_t{0});
    const std::int64_t max = costs.empty() ? 0 : std::ranges::max(costs);
    EXPECT_LE(std::ranges::max(loads), sum / std::ssize(loads) + max);
  }
}

TEST(PlaceNear, LeavesItemsWhereTheyAreLevelAlready) {
  const std::vector<PlaceRange> near{{1, 2}, {0, 1}, {1, 2}, {0, 1}};
  Numbers loads{0, 0};
  EXPECT_EQ(place_near(Numbers{3, 4, 3, 2}, near, loads), (Numbers{1, 0, 1, 0}));
  EXPECT_EQ(loads, (Numbers{6, 6}));
}

TEST(PlaceNear, IsAsLevelAsPlaceItemsAndMovesFewer) {
  std::int64_t moved = 0;
  std::int64_t moved_anywhere = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    RandomStream stream(seed, "place near");
    Numbers costs(static_cast<std::size_t>(stream.between(0, 40)));
    for (std::int64_t& cost : costs) cost = stream.between(0, 1000);
    Numbers loads(static_cast<std::size_t>(stream.between(1, 6)));
    for (std::int64_t& load : loads) load = stream.between(0, 200);
    std::vector<PlaceRange> near;
    for (std::size_t i = 0; i < costs.size(); ++i) {
      const std::int64_t first = stream.between(0, std::ssize(loads) - 1);
      near.push_back(
          {first, std::min<std::int64_t>(std::ssize(loads), first + stream.between(1, 2))});
    }
    Numbers before = loads;
    Numbers level = loads;
    const Numbers anywhere = place_items(costs, level);
    const Numbers places = place_near(costs, near, loads);
    for (std::size_t i = 0; i < costs.size(); ++i) {
      before.at(static_cast<std::size_t>(places[i])) += costs[i];
      const auto is_away = [&](std::int64_t place) {
        return place < near[i].first || place >= near[i].end ? 1 : 0;
      };
      moved += is_away(places[i]);
      moved_anywhere += is_away(anywhere[i]);
    }
    EXPECT_EQ(before, loads);
    EXPECT_LE(64 * std::ranges::max(loads), 65 * std::ranges::max(level)) << "seed " << seed;
  }
  EXPECT_LT(2 * moved, moved_anywhere);
}

TEST(PlaceItems, CountsTheLargerOfTimeAndRoom) {
  // Mean time 10, capacity 10: fractions 0.8, 0.9, 0.6 and 0.5.
  const std::vector<TimeAndRoom> items{{8, 1}, {2, 9}, {6, 2}, {4, 5}};
  std::vector<TimeAndRoom> loads(2);
  EXPECT_EQ(place_items(items, 10, loads), (Numbers{1, 0, 0, 1}));
  EXPECT_EQ(loads, (std::vector<TimeAndRoom>{{8, 11}, {12, 6}}));
}

TEST(PlaceItems, WithRoomForAllGoesByTimeAlone) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    RandomStream stream(seed, "time and room");
    std::vector<TimeAndRoom> items(static_cast<std::size_t>(stream.between(0, 20)));
    Numbers costs;
    for (TimeAndRoom& item : items) {
      item = {stream.between(0, 30), stream.between(0, 30)};
      costs.push_back(item.time);
    }
    Numbers times{3, 0, 1};
    std::vector<TimeAndRoom> loads{{3, 0}, {0, 0}, {1, 0}};
    EXPECT_EQ(place_items(items, 1'000'000, loads), place_items(costs, times)) << "seed " << seed;
  }
}

/// The least fraction of any place is at most the mean of time and room together.
TEST(PlaceItems, KeepsTimeAndRoomWithinOneItemOfTheirMeans) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    RandomStream stream(seed, "room");
    std::vector<TimeAndRoom> items(static_cast<std::size_t>(stream.between(1, 24)));
    TimeAndRoom sum;
    for (TimeAndRoom& item : items) {
      item = {stream.between(1, 30), stream.between(0, 10)};
      sum = {sum.time + item.time, sum.room + item.room};
    }
    const std::int64_t capacity = stream.between(5, 60);
    const auto fraction = [&](const TimeAndRoom& of) {
      return std::max(4.0 * double(of.time) / double(sum.time), double(of.room) / double(capacity));
    };
    double largest = 0;
    for (const TimeAndRoom& item : items) largest = std::max(largest, fraction(item));
    std::vector<TimeAndRoom> loads(4);
    (void)place_items(items, capacity, loads);
    TimeAndRoom found;
    for (const TimeAndRoom& load : loads) {
      EXPECT_LE(fraction(load), 1 + double(sum.room) / (4.0 * double(capacity)) + largest + 1e-9)
          << "seed " << seed;
      found = {found.time + load.time, found.room + load.room};
    }
    EXPECT_EQ(found, sum);
  }
}

TEST(ShareItems, GoesByPatches) {
  const std::vector<Grid> grids{{1, 2, 2}, {4, 4, 4}, {1, 6, 6}, {1, 4, 4}};
  EXPECT_EQ(share_items(grids, 2), (Numbers{1, 0, 1, 1}));  // 4, 64, 36 and 16 patches
  EXPECT_EQ(share_items(grids, 1), (Numbers{0, 0, 0, 0}));
  EXPECT_TRUE(share_items({}, 3).empty());
}

}  // namespace
}  // namespace tributary
