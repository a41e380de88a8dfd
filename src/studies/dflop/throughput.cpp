#include "studies/dflop/throughput.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/error.h"

namespace tributary::studies {

Throughput Throughput::saturating(double peak, double half) {
  TRIB_REQUIRE(std::isfinite(peak) && peak > 0 && std::isfinite(half) && half >= 0,
               .what = "studies: throughput law cannot be used",
               .found = str("peak ", peak, " FLOP/s, half ", half),
               .expected = "peak above 0, half 0 or above");
  Throughput law;
  law.peak_ = peak;
  law.half_ = half;
  return law;
}

Throughput Throughput::table(std::vector<Point> points) {
  TRIB_REQUIRE(!points.empty(), .what = "studies: throughput table is empty",
               .expected = "one point or more");
  Throughput table;
  double last = 0;
  for (const Point& point : points) {
    TRIB_REQUIRE(std::isfinite(point.shape) && point.shape > last &&
                     std::isfinite(point.flops_per_second) && point.flops_per_second > 0,
                 .what = "studies: throughput table cannot be used",
                 .found = str("shape ", point.shape, ", ", point.flops_per_second, " FLOP/s"),
                 .expected = "ascending shapes and values, all above 0");
    last = point.shape;
    table.peak_ = std::max(table.peak_, point.flops_per_second);
    table.running_.push_back(table.peak_);
  }
  table.points_ = std::move(points);
  return table;
}

double Throughput::at(double shape) const {
  if (points_.empty()) return peak_ * shape / (shape + half_);
  const auto above = std::upper_bound(points_.begin(), points_.end(), shape,
                                      [](double value, const Point& p) { return value < p.shape; });
  if (above == points_.begin()) return points_.front().flops_per_second;
  if (above == points_.end()) return points_.back().flops_per_second;
  const Point& below = *(above - 1);
  const double share = (shape - below.shape) / (above->shape - below.shape);
  return below.flops_per_second + share * (above->flops_per_second - below.flops_per_second);
}

double Throughput::most_up_to(double shape) const {
  if (points_.empty()) return at(shape);
  const auto above = std::upper_bound(points_.begin(), points_.end(), shape,
                                      [](double value, const Point& p) { return value < p.shape; });
  if (above == points_.begin()) return points_.front().flops_per_second;
  return std::max(running_[above - points_.begin() - 1], at(shape));
}

}  // namespace tributary::studies
