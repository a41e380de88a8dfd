#include "cost/convex_profile.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "cost/measured_attention.h"
#include "cost/profile_columns.h"

namespace tributary::cost {
namespace {

using config::MeasuredAttention;
using config::MeasuredCollective;

/// Larger than any size that is asked for.
constexpr std::int64_t kFar = std::int64_t{1} << 36;
constexpr double kFarAttended = 1 << 26;

struct Corner {
  double size;
  double value;
};

double slope(const Corner& a, const Corner& b) { return (b.value - a.value) / (b.size - a.size); }

/// The lower convex hull of a point at size 0, of non-decreasing points, and of a ray at the rate
/// of the last point.
std::vector<Corner> hull_of(const std::vector<Corner>& points, double at_zero = 0) {
  std::vector<Corner> hull{{0, at_zero}};
  double highest = 0;
  for (const Corner& point : points) {
    highest = std::max(highest, point.value);
    const Corner next{point.size, highest};
    while (hull.size() >= 2 &&
           slope(hull[hull.size() - 2], hull.back()) >= slope(hull.back(), next))
      hull.pop_back();
    hull.push_back(next);
  }
  const double rate = highest / points.back().size;
  while (hull.size() >= 2 && slope(hull[hull.size() - 2], hull.back()) > rate) hull.pop_back();
  const double far = static_cast<double>(kFar);
  hull.push_back({far, hull.back().value + rate * (far - hull.back().size)});
  return hull;
}

std::int64_t value_at(const std::vector<Corner>& hull, double size) {
  std::size_t after = 1;
  while (after + 1 < hull.size() && hull[after].size < size) ++after;
  const Corner& before = hull[after - 1];
  return static_cast<std::int64_t>(
      std::floor(before.value + slope(before, hull[after]) * (size - before.size)));
}

/// Replaces one column by its hull; the last point is far away and is not written back.
void bend(const ProfileColumn& column) {
  if (column.values.empty()) return;
  std::vector<Corner> corners;
  for (std::size_t i = 0; i + 1 < column.values.size(); ++i)
    corners.push_back({column.sizes[i], static_cast<double>(*column.values[i])});
  if (std::all_of(corners.begin(), corners.end(), [](const Corner& c) { return c.value == 0; })) {
    *column.values.back() = 0;
    return;
  }
  const std::vector<Corner> hull = hull_of(corners);
  for (std::size_t i = 0; i < column.values.size(); ++i)
    *column.values[i] = value_at(hull, column.sizes[i]);
}

/// Replaces raised points of attention by the hull of their times per item, from the first one's at
/// 0 to far beyond the last.
/// || A function t(p / i) of pairs per item that is convex makes i t(p / i) convex in items i and
/// pairs p together.
void bend_attention(std::vector<MeasuredAttention>& points) {
  if (points.empty()) return;
  std::vector<MeasuredAttention> bent = points;
  bent.insert(bent.begin(), points.front());
  bent.front().attended = 0;
  bent.push_back(points.back());
  bent.back().attended = kFarAttended;
  const auto bend_field = [&](Nanoseconds MeasuredAttention::*field) {
    std::vector<Corner> corners;
    for (const MeasuredAttention& point : points)
      corners.push_back({point.attended, static_cast<double>((point.*field).count)});
    const std::vector<Corner> hull = hull_of(corners, corners.front().value);
    for (MeasuredAttention& point : bent) point.*field = {value_at(hull, point.attended)};
  };
  bend_field(&MeasuredAttention::forward);
  bend_field(&MeasuredAttention::gradient);
  points = std::move(bent);
}

/// Calls `visit` with the range of each group size, from the last one to the first.
template <class Visit>
void for_each_group(std::vector<MeasuredCollective>& points, Visit visit) {
  for (std::size_t end = points.size(); end > 0;) {
    std::size_t begin = end - 1;
    while (begin > 0 && points[begin - 1].ranks == points[begin].ranks) --begin;
    visit(begin, end);
    end = begin;
  }
}

void add_far_points(config::Profile& profile) {
  for (config::ProfileTable& table : profile.layers) {
    if (table.points.empty()) continue;
    table.points.push_back(table.points.back());
    table.points.back().tokens = {kFar};
  }
  for (config::CollectiveTable& table : profile.collectives)
    for_each_group(table.points, [&](std::size_t /*begin*/, std::size_t end) {
      MeasuredCollective far = table.points[end - 1];
      far.bytes = {kFar};
      table.points.insert(table.points.begin() + static_cast<std::ptrdiff_t>(end), far);
    });
}

/// Below its first point a collective takes that point's time, so a point of 1 byte and 0 ns is
/// added.
void add_near_points(config::Profile& profile) {
  for (config::CollectiveTable& table : profile.collectives)
    for_each_group(table.points, [&](std::size_t begin, std::size_t /*end*/) {
      if (table.points[begin].bytes <= Bytes{1}) return;
      table.points.insert(table.points.begin() + static_cast<std::ptrdiff_t>(begin),
                          {.ranks = table.points[begin].ranks, .bytes = {1}, .time = {0}});
    });
}

}  // namespace

config::Profile convex_below(config::Profile profile) {
  profile.launch = {};
  for (config::ProfileTable& table : profile.layers) {
    table.attention = raise_attention(std::move(table.attention));
    bend_attention(table.attention);
  }
  add_far_points(profile);
  for_each_column(profile, bend);
  add_near_points(profile);
  return profile;
}

}  // namespace tributary::cost
