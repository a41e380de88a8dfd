#include "schedule/balance/balance_bound.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <ranges>
#include <vector>

namespace tributary::schedule {
namespace {

/// Among the k * buckets + 1 largest items some bucket holds k + 1, at least the k + 1 smallest.
std::int64_t bound_by_meeting(std::span<const std::int64_t> descending, std::int64_t buckets) {
  const std::int64_t items = std::ssize(descending);
  std::vector<std::int64_t> sum(descending.size() + 1);
  std::partial_sum(descending.begin(), descending.end(), sum.begin() + 1);
  std::int64_t bound = 0;
  for (std::int64_t k = 1; k * buckets < items; ++k) {
    const std::int64_t last = k * buckets;
    bound = std::max(bound, sum[last + 1] - sum[last - k]);
  }
  return bound;
}

/// If every load holds t whole units, some bucket holds ceil(sum of t / buckets) units.
std::int64_t bound_by_unit(std::span<const std::int64_t> distinct,
                           std::span<const std::int64_t> count, std::int64_t unit,
                           std::int64_t buckets) {
  std::int64_t units = 0;
  for (std::size_t i = 0; i < distinct.size(); ++i) units += distinct[i] / unit * count[i];
  return (units + buckets - 1) / buckets * unit;
}

/// The largest unit that every load holds as often as it holds `about`, rounded; 0 when that is not
/// above `min`.
std::int64_t tighten_unit(std::span<const std::int64_t> distinct, std::int64_t about,
                          std::int64_t min) {
  std::int64_t unit = std::numeric_limits<std::int64_t>::max();
  for (const std::int64_t load : distinct) {
    const std::int64_t times = (load + about / 2) / about;
    if (times == 0) return 0;
    // Loads hold times * about up to half of `about`, so larger loads allow no smaller unit.
    if (about - (about + 1) / 2 / times - 1 >= unit) break;
    unit = std::min(unit, load / times);
    if (unit <= min) return 0;
  }
  return unit;
}

/// For loads that are all close to multiples of one unit, such as times of equal tiles: the load of
/// a bucket cannot be between two multiples. Tries the smallest loads and their parts as the unit.
/// A unit raises the bound at most by itself above the mean bucket, so units that cannot exceed the
/// known bound are skipped.
std::int64_t bound_by_units(std::span<const std::int64_t> descending, std::int64_t buckets,
                            std::int64_t mean, std::int64_t known) {
  constexpr std::size_t kLoadsTried = 4;
  constexpr std::int64_t kPartsTried = 16;
  std::vector<std::int64_t> distinct;  // ascending, without 0
  std::vector<std::int64_t> count;
  for (const std::int64_t load : descending | std::views::reverse) {
    if (load == 0) continue;
    if (distinct.empty() || distinct.back() != load) {
      distinct.push_back(load);
      count.push_back(0);
    }
    ++count.back();
  }
  std::int64_t bound = 0;
  for (std::size_t i = 0; i < std::min(distinct.size(), kLoadsTried); ++i) {
    for (std::int64_t parts = 1; parts <= std::min(kPartsTried, distinct[i]); ++parts) {
      const std::int64_t unit =
          tighten_unit(distinct, distinct[i] / parts, std::max(known, bound) - mean);
      if (unit > 0) bound = std::max(bound, bound_by_unit(distinct, count, unit, buckets));
    }
  }
  return bound;
}

}  // namespace

std::int64_t balance_bound(const BalanceProblem& problem) {
  check_problem(problem);
  std::int64_t bound = 0;
  std::vector<std::int64_t> loads(static_cast<std::size_t>(problem.items()));
  for (std::int64_t dimension = 0; dimension < problem.dimensions; ++dimension) {
    std::int64_t total = 0;
    for (std::size_t item = 0; item < loads.size(); ++item) {
      loads[item] = problem.loads[item * problem.dimensions + dimension];
      total += loads[item];
    }
    std::sort(loads.begin(), loads.end(), std::greater<>());
    const std::int64_t mean = (total + problem.buckets - 1) / problem.buckets;
    std::int64_t added = mean;
    if (!loads.empty()) added = std::max(added, loads.front());
    added = std::max(added, bound_by_meeting(loads, problem.buckets));
    added = std::max(added, bound_by_units(loads, problem.buckets, mean, added));
    bound = std::max(bound, added + (problem.held.empty() ? 0 : problem.held[dimension]));
  }
  return bound;
}

}  // namespace tributary::schedule
