#include "plan/cost/convex_profile.h"

#include <algorithm>
#include <cmath>

namespace tributary::plan {
namespace {

using config::MeasuredCollective;
using config::ProfilePoint;

/// Beyond all sizes that are asked for.
constexpr std::int64_t kFar = std::int64_t{1} << 36;

struct Corner {
  double size;
  double value;
};

double slope(const Corner& a, const Corner& b) { return (b.value - a.value) / (b.size - a.size); }

/// The lower hull of nothing at none, of points that never decrease, and of the rate of the last
/// point beyond it.
std::vector<Corner> hull_of(const std::vector<Corner>& points) {
  std::vector<Corner> hull{{0, 0}};
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

/// Replaces one column of a table; the last point is far away and not read.
template <class Point, class Size, class Value>
void bend_column(std::vector<Point>& points, Size size, Value value) {
  std::vector<Corner> corners;
  for (std::size_t i = 0; i + 1 < points.size(); ++i)
    corners.push_back(
        {static_cast<double>(size(points[i])), static_cast<double>(value(points[i]))});
  if (std::all_of(corners.begin(), corners.end(), [](const Corner& c) { return c.value == 0; })) {
    value(points.back()) = 0;
    return;
  }
  const std::vector<Corner> hull = hull_of(corners);
  for (Point& point : points) value(point) = value_at(hull, static_cast<double>(size(point)));
}

void bend(std::vector<ProfilePoint>& points) {
  if (points.empty()) return;
  ProfilePoint far = points.back();
  far.tokens = {kFar};
  points.push_back(far);
  const auto tokens = [](const ProfilePoint& point) { return point.tokens.count; };
  const auto column = [&](auto field) {
    bend_column(points, tokens,
                [field](ProfilePoint& point) -> std::int64_t& { return (point.*field).count; });
  };
  column(&ProfilePoint::forward);
  column(&ProfilePoint::input_gradient);
  column(&ProfilePoint::weight_gradient);
  column(&ProfilePoint::recompute);
  column(&ProfilePoint::activation);
  column(&ProfilePoint::activation_recomputed);
  column(&ProfilePoint::peak);
}

/// Points of one group size, ascending; below the first a collective takes its time, so that one
/// more stands for almost nothing.
void bend(std::vector<MeasuredCollective> points, std::vector<MeasuredCollective>& out) {
  MeasuredCollective far = points.back();
  far.bytes = {kFar};
  points.push_back(far);
  bend_column(
      points, [](const MeasuredCollective& point) { return point.bytes.count; },
      [](MeasuredCollective& point) -> std::int64_t& { return point.time.count; });
  if (points.front().bytes > Bytes{1})
    out.push_back({.ranks = far.ranks, .bytes = {1}, .time = {0}});
  out.insert(out.end(), points.begin(), points.end());
}

}  // namespace

config::Profile convex_below(config::Profile profile) {
  profile.launch = {};
  for (config::ProfileTable& table : profile.layers) bend(table.points);
  for (config::CollectiveTable& table : profile.collectives) {
    std::vector<MeasuredCollective> bent;
    for (auto first = table.points.begin(); first != table.points.end();) {
      const auto end = std::find_if(first, table.points.end(),
                                    [&](const auto& point) { return point.ranks != first->ranks; });
      bend(std::vector<MeasuredCollective>(first, end), bent);
      first = end;
    }
    table.points = std::move(bent);
  }
  return profile;
}

}  // namespace tributary::plan
