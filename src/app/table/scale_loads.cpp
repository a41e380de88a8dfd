#include "app/table/scale_loads.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/error.h"

namespace tributary::app {

ScaledLoads scale_loads(const NumberTable& table) {
  std::vector<double> total(static_cast<std::size_t>(table.width));
  ScaledLoads scaled = {.width = table.width, .whole = {}};
  for (std::size_t i = 0; i < table.values.size(); ++i) {
    const double value = table.values[i];
    total[i % total.size()] += value;
    scaled.is_exact = scaled.is_exact && value == std::floor(value);
    TRIB_REQUIRE(total[i % total.size()] <= kMostWhole,
                 .what = "app: a column adds up to more than can be counted",
                 .where = table.place_of(static_cast<std::int64_t>(i) / table.width),
                 .expected = "at most 2^53 in all rows together", .fix = "choose a larger unit");
  }
  const double largest = *std::max_element(total.begin(), total.end());
  if (!scaled.is_exact) scaled.exponent = 49 - std::ilogb(largest);
  scaled.whole.reserve(table.values.size());
  for (const double value : table.values) {
    scaled.whole.push_back(
        static_cast<std::int64_t>(std::floor(std::ldexp(value, scaled.exponent))));
  }
  return scaled;
}

Json BucketSums::number(double load) const {
  return is_exact ? Json(static_cast<std::int64_t>(load)) : Json(load);
}

BucketSums sum_buckets(const NumberTable& table, const ScaledLoads& scaled,
                       const schedule::Balance& found, std::int64_t buckets) {
  BucketSums sums = {.buckets = buckets,
                     .width = table.width,
                     .is_exact = scaled.is_exact,
                     .loads = std::vector<double>(static_cast<std::size_t>(buckets * table.width))};
  for (std::size_t i = 0; i < table.values.size(); ++i) {
    const std::size_t bucket = found.bucket_of[i / table.width];
    sums.loads[bucket * table.width + i % table.width] += table.values[i];
  }
  sums.value = *std::max_element(sums.loads.begin(), sums.loads.end());
  // Sums of fractions are rounded; the bound must not come out above the value.
  sums.lower_bound =
      std::min(sums.value, std::ldexp(static_cast<double>(found.lower_bound), -scaled.exponent));
  return sums;
}

}  // namespace tributary::app
