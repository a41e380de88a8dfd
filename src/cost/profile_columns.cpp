#include "cost/profile_columns.h"

#include <cmath>
#include <type_traits>
#include <utility>

#include "cost/measured_attention.h"

namespace tributary::cost {
namespace {

using config::MeasuredCollective;
using config::ProfilePoint;

void visit_table(std::vector<ProfilePoint>& points,
                 const std::function<void(const ProfileColumn&)>& visit) {
  const auto column = [&](auto field) {
    ProfileColumn of;
    of.is_time = std::is_same_v<decltype(field), Nanoseconds ProfilePoint::*>;
    for (ProfilePoint& point : points) {
      of.sizes.push_back(static_cast<double>(point.tokens.count));
      of.values.push_back(&(point.*field).count);
    }
    visit(of);
  };
  column(&ProfilePoint::forward);
  column(&ProfilePoint::input_gradient);
  column(&ProfilePoint::weight_gradient);
  column(&ProfilePoint::recompute);
  column(&ProfilePoint::activation);
  column(&ProfilePoint::activation_recomputed);
  column(&ProfilePoint::peak);
}

/// Adjacent points that share a mean.
struct Pool {
  double sum = 0;
  std::size_t points = 0;
  [[nodiscard]] double mean() const { return sum / static_cast<double>(points); }
};

void raise(const ProfileColumn& column) {
  if (!column.is_time) return;
  std::vector<Pool> pools;
  for (const std::int64_t* value : column.values) {
    pools.push_back({static_cast<double>(*value), 1});
    while (pools.size() >= 2 && pools[pools.size() - 2].mean() > pools.back().mean()) {
      const Pool last = pools.back();
      pools.pop_back();
      pools.back().sum += last.sum;
      pools.back().points += last.points;
    }
  }
  std::size_t at = 0;
  for (const Pool& pool : pools)
    for (const std::size_t end = at + pool.points; at < end; ++at)
      *column.values[at] = std::llround(pool.mean());
}

}  // namespace

void for_each_column(config::Profile& profile,
                     const std::function<void(const ProfileColumn&)>& visit) {
  for (config::ProfileTable& table : profile.layers) visit_table(table.points, visit);
  for (config::CollectiveTable& table : profile.collectives) {
    ProfileColumn column;
    for (std::size_t i = 0; i < table.points.size(); ++i) {
      MeasuredCollective& point = table.points[i];
      column.sizes.push_back(static_cast<double>(point.bytes.count));
      column.values.push_back(&point.time.count);
      if (i + 1 < table.points.size() && table.points[i + 1].ranks == point.ranks) continue;
      visit(column);
      column = {};
    }
  }
}

config::Profile never_decreasing(config::Profile profile) {
  for_each_column(profile, raise);
  for (config::ProfileTable& table : profile.layers)
    table.attention = raise_attention(std::move(table.attention));
  return profile;
}

}  // namespace tributary::cost
