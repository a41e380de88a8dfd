#pragma once

#include "app/table/read_table.h"
#include "core/json.h"
#include "schedule/balance/balance.h"

namespace tributary::app {

/// The numbers of a table as whole numbers, which the balancing algorithms need.
struct ScaledLoads {
  std::int64_t width = 0;
  std::vector<std::int64_t> whole;  // [rows, width]
  bool is_exact = true;             // the table holds whole numbers, which are not scaled
  int exponent = 0;                 // else each number was multiplied by 2^exponent, rounded down
};

/// Keeps whole numbers. Where there are fractions, all numbers are scaled by one power of two so
/// that the sum of the largest column has 49 to 50 bits. Rounding down keeps a lower bound a lower
/// bound.
///
/// errors: Fault::kInput, naming the row, when a column adds up to more than kMostWhole
[[nodiscard]] ScaledLoads scale_loads(const NumberTable& table);

/// The loads of the buckets, in the units of the table.
struct BucketSums {
  std::int64_t buckets = 0;
  std::int64_t width = 0;
  bool is_exact = true;
  std::vector<double> loads;  // [buckets, width]
  double value = 0;           // the largest of them
  double lower_bound = 0;

  [[nodiscard]] double at(std::int64_t bucket, std::int64_t column) const {
    return loads[bucket * width + column];
  }
  /// A value as JSON: a whole number where the table holds whole numbers.
  [[nodiscard]] Json number(double load) const;
};

[[nodiscard]] BucketSums sum_buckets(const NumberTable& table, const ScaledLoads& scaled,
                                     const schedule::Balance& found, std::int64_t buckets);

}  // namespace tributary::app
