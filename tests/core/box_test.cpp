#include "core/box.h"

#include <gtest/gtest.h>
#include <map>

#include "core/random.h"
#include "core/text.h"

namespace tributary {
namespace {

using Point = std::vector<std::int64_t>;

/// Every point of a box with its row-major position in it.
std::map<Point, std::int64_t> points_of(const Box& box) {
  std::map<Point, std::int64_t> points;
  const std::int64_t elements = *volume(box.lengths);
  for (std::int64_t at = 0; at < elements; ++at) {
    Point point(box.offsets.size());
    std::int64_t rest = at;
    for (std::size_t i = point.size(); i-- > 0;) {
      point[i] = box.offsets[i] + rest % box.lengths[i];
      rest /= box.lengths[i];
    }
    points[point] = at;
  }
  return points;
}

Box random_box(RandomStream& random, std::size_t rank) {
  Box box;
  for (std::size_t i = 0; i < rank; ++i) {
    box.offsets.push_back(random.between(0, 3));
    box.lengths.push_back(random.between(0, 4));
  }
  return box;
}

TEST(SharedRuns, CoverTheSharedPointsOnceInOrder) {
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    SCOPED_TRACE(str("seed ", seed));
    RandomStream random(seed);
    const auto rank = static_cast<std::size_t>(random.below(5));
    const Box from = random_box(random, rank);
    const Box to = random_box(random, rank);
    const auto from_points = points_of(from);
    const auto to_points = points_of(to);
    std::map<std::int64_t, std::int64_t> expected;
    for (const auto& [point, at] : from_points)
      if (to_points.contains(point)) expected[at] = to_points.at(point);

    std::map<std::int64_t, std::int64_t> got;
    std::int64_t last = -1;
    for (const SharedRun& run : shared_runs(from, to)) {
      EXPECT_GT(run.from, last);
      for (std::int64_t i = 0; i < run.elements; ++i)
        EXPECT_TRUE(got.emplace(run.from + i, run.to + i).second);
      last = run.from + run.elements - 1;
    }
    EXPECT_EQ(got, expected);
  }
}

TEST(SharedRuns, MergesWholeInnerDimensions) {
  const Box whole = whole_box(std::vector<std::int64_t>{6, 4, 5});
  EXPECT_EQ(shared_runs(whole, whole).size(), 1U);
  EXPECT_EQ(shared_runs(whole, {{2, 0, 0}, {3, 4, 5}}).size(), 1U);
  EXPECT_EQ(shared_runs(whole, {{2, 1, 0}, {3, 2, 5}}).size(), 3U);
  EXPECT_EQ(shared_runs(whole_box({}), whole_box({})).size(), 1U) << "a scalar is one element";
}

TEST(Volume, RefusesNegativeLengthsAndOverflow) {
  EXPECT_EQ(volume(std::vector<std::int64_t>{3, 0, 5}), 0);
  EXPECT_FALSE(volume(std::vector<std::int64_t>{3, -1}));
  EXPECT_FALSE(volume(std::vector<std::int64_t>{INT64_MAX, 2}));
}

TEST(LiesIn, ComparesWithoutOverflow) {
  const std::vector<std::int64_t> shape{4, 4};
  EXPECT_TRUE(lies_in({{0, 4}, {4, 0}}, shape));
  EXPECT_FALSE(lies_in({{1, 0}, {4, 4}}, shape));
  EXPECT_FALSE(lies_in({{0}, {4}}, shape));
  EXPECT_FALSE(lies_in({{INT64_MAX, 0}, {1, 1}}, shape));
  EXPECT_FALSE(lies_in({{0, 0}, {1, INT64_MAX}}, shape));
}

}  // namespace
}  // namespace tributary
