#include "plan/chains/lane_times.h"

#include <algorithm>
#include <cmath>

namespace tributary::plan {

double pipeline_time(double work, double share, std::int64_t stages, std::int64_t microbatches) {
  const auto m = static_cast<double>(microbatches);
  const auto p = static_cast<double>(stages);
  if (share <= 0) return work * m / p;
  return work * share / (1 - std::pow(1 - share / m, p));
}

/// The answer is the time of a rank that holds some blocks, with one end, both or none. Takes the
/// min of these times at which all blocks find room.
double busiest_rank(const UnitTimes& units, std::int64_t blocks, std::int64_t ranks) {
  const auto n = static_cast<double>(ranks);
  const double ends = units.first + units.last;
  const double mean = (ends + units.block * static_cast<double>(blocks)) / n;
  if (ranks == 1 || blocks == 0 || units.block <= 0) return mean;
  const auto room = [&](double time) {
    return std::floor(time / units.block + 1e-9);  // below 0: an end alone takes longer
  };
  const auto holds_all = [&](double time) {
    if (time < std::max(units.first, units.last) * (1 - 1e-12)) return false;
    const double apart = (n - 2) * room(time) + room(time - units.first) + room(time - units.last);
    const double together = time < ends ? 0 : (n - 1) * room(time) + room(time - ends);
    return std::max(apart, together) >= static_cast<double>(blocks);
  };
  const double least = std::max({mean, units.first, units.last});
  if (holds_all(least)) return least;
  double busiest = std::numeric_limits<double>::infinity();
  for (const double beside : {0.0, units.first, units.last, ends}) {
    double own = std::max(0.0, std::ceil((least - beside) / units.block - 1e-9));
    while (beside + own * units.block < busiest && !holds_all(beside + own * units.block)) ++own;
    busiest = std::min(busiest, beside + own * units.block);
  }
  return busiest;
}

}  // namespace tributary::plan
