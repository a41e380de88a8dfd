#include "cost/profile_columns.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <limits>

#include "core/random.h"

namespace tributary::cost {
namespace {

config::Profile with_forwards(const std::vector<std::int64_t>& times) {
  config::Profile profile;
  config::ProfileTable table{.module = "backbone", .layer = "block"};
  for (std::size_t i = 0; i < times.size(); ++i)
    table.points.push_back({.tokens = {static_cast<std::int64_t>(i) + 1},
                            .forward = {times[i]},
                            .recompute = {5},
                            .activation = {-static_cast<std::int64_t>(i)}});
  profile.layers.push_back(table);
  return profile;
}

std::vector<std::int64_t> forwards_of(const config::Profile& profile) {
  std::vector<std::int64_t> times;
  for (const config::ProfilePoint& point : profile.layers.front().points)
    times.push_back(point.forward.count);
  return times;
}

double distance(const std::vector<std::int64_t>& a, const std::vector<std::int64_t>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    sum += static_cast<double>((a[i] - b[i]) * (a[i] - b[i]));
  return sum;
}

/// The least distance of any rising values up to 9 after `min`.
double nearest_by_brute_force(const std::vector<std::int64_t>& times, std::size_t at,
                              std::int64_t min) {
  if (at == times.size()) return 0;
  double best = std::numeric_limits<double>::infinity();
  for (std::int64_t value = min; value <= 9; ++value)
    best = std::min(best, static_cast<double>((times[at] - value) * (times[at] - value)) +
                              nearest_by_brute_force(times, at + 1, value));
  return best;
}

TEST(ProfileColumns, RiseAsNearAsPossibleToWhatWasMeasured) {
  RandomStream random(1, "profile_columns_test");
  for (int draw = 0; draw < 200; ++draw) {
    std::vector<std::int64_t> times;
    for (int i = 0; i < 5; ++i) times.push_back(random.between(0, 9));
    const std::vector<std::int64_t> risen = forwards_of(never_decreasing(with_forwards(times)));
    EXPECT_TRUE(std::is_sorted(risen.begin(), risen.end())) << draw;
    // The nearest whole numbers: means are rounded, each by a half at most.
    EXPECT_LE(distance(times, risen), nearest_by_brute_force(times, 0, 0) + 0.25 * 5) << draw;
    EXPECT_EQ(forwards_of(never_decreasing(with_forwards(risen))), risen) << "nothing to mend";
  }
}

TEST(ProfileColumns, OnePointThatNoiseLiftedDoesNotLiftAllThatFollow) {
  const config::Profile risen = never_decreasing(with_forwards({10, 100, 20, 30, 40, 200}));
  EXPECT_EQ(forwards_of(risen), (std::vector<std::int64_t>{10, 48, 48, 48, 48, 200}));
  for (const config::ProfilePoint& point : risen.layers.front().points) {
    EXPECT_EQ(point.recompute, Nanoseconds{5}) << "another column";
    EXPECT_EQ(point.activation.count, 1 - point.tokens.count) << "bytes are not noise";
  }
}

TEST(ProfileColumns, CollectivesOfOtherNumbersOfRanksAreOtherColumns) {
  config::Profile profile;
  config::CollectiveTable table{.op = config::CollectiveOp::kAllGather};
  for (const std::int64_t ranks : {2, 4})
    for (const std::int64_t bytes : {1, 2, 3})
      table.points.push_back({.ranks = ranks, .bytes = {bytes}, .time = {10 * ranks - bytes}});
  profile.collectives.push_back(table);
  std::vector<std::size_t> lengths;
  for_each_column(profile, [&](const ProfileColumn& column) {
    lengths.push_back(column.sizes.size());
    EXPECT_EQ(column.sizes, (std::vector<double>{1, 2, 3}));
  });
  EXPECT_EQ(lengths, (std::vector<std::size_t>{3, 3}));
  const config::Profile risen = never_decreasing(profile);
  const auto& points = risen.collectives.front().points;
  for (std::size_t i = 0; i < points.size(); ++i)
    EXPECT_EQ(points[i].time, Nanoseconds{i < 3 ? 18 : 38});
}

}  // namespace
}  // namespace tributary::cost
