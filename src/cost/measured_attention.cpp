#include "cost/measured_attention.h"

#include <algorithm>
#include <cmath>

namespace tributary::cost {
namespace {

using config::MeasuredAttention;

using Field = Nanoseconds MeasuredAttention::*;

double rate_of(const MeasuredAttention& point, Field field) {
  return static_cast<double>((point.*field).count) / static_cast<double>(point.tokens.count);
}

/// Time of one item that attends with `attended`.
double rate_at(const std::vector<MeasuredAttention>& points, Field field, double attended) {
  const auto after = std::ranges::lower_bound(points, attended, {}, &MeasuredAttention::attended);
  if (after == points.begin()) return rate_of(points.front(), field);
  const MeasuredAttention& before = *(after - 1);
  const double low = rate_of(before, field);
  if (after == points.end()) return low * attended / before.attended;
  const double part = (attended - before.attended) / (after->attended - before.attended);
  return low + (rate_of(*after, field) - low) * part;
}

/// Items that take the same time.
struct Pool {
  double time = 0;
  double items = 0;
  std::size_t points = 0;
  [[nodiscard]] double rate() const { return time / items; }
};

void raise_field(std::vector<MeasuredAttention>& points, Field field) {
  std::vector<Pool> pools;
  for (const MeasuredAttention& point : points) {
    pools.push_back(
        {static_cast<double>((point.*field).count), static_cast<double>(point.tokens.count), 1});
    while (pools.size() >= 2 && pools[pools.size() - 2].rate() > pools.back().rate()) {
      const Pool last = pools.back();
      pools.pop_back();
      pools.back().time += last.time;
      pools.back().items += last.items;
      pools.back().points += last.points;
    }
  }
  std::size_t at = 0;
  for (const Pool& pool : pools)
    for (const std::size_t end = at + pool.points; at < end; ++at)
      points[at].*
          field = {std::llround(pool.rate() * static_cast<double>(kItemsOfRaisedPoint.count))};
}

}  // namespace

AttentionTime attention_time(const std::vector<MeasuredAttention>& points, const PassShape& pass) {
  if (points.empty() || pass.tokens <= 0) return {};
  const double attended = pass.squared_tokens / pass.tokens;
  return {.forward = pass.tokens * rate_at(points, &MeasuredAttention::forward, attended),
          .gradient = pass.tokens * rate_at(points, &MeasuredAttention::gradient, attended),
          .outside_grid = attended > points.back().attended};
}

std::vector<MeasuredAttention> raise_attention(std::vector<MeasuredAttention> points) {
  std::ranges::stable_sort(points, {}, &MeasuredAttention::attended);
  std::vector<MeasuredAttention> raised;
  for (const MeasuredAttention& point : points) {
    if (raised.empty() || raised.back().attended < point.attended) {
      raised.push_back(point);
      continue;
    }
    raised.back().tokens += point.tokens;
    raised.back().forward += point.forward;
    raised.back().gradient += point.gradient;
  }
  raise_field(raised, &MeasuredAttention::forward);
  raise_field(raised, &MeasuredAttention::gradient);
  for (MeasuredAttention& point : raised) point.tokens = kItemsOfRaisedPoint;
  return raised;
}

}  // namespace tributary::cost
