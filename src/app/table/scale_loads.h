#pragma once

#include "app/table/read_table.h"
#include "core/json.h"
#include "schedule/balance/balance.h"

namespace tributary::app {

/// The numbers of a table as the whole numbers that balancing works on.
struct ScaledLoads {
  std::int64_t width = 0;
  std::vector<std::int64_t> whole;  // [rows, width]
  bool is_exact = true;             // the table holds whole numbers, taken as they are
  int exponent = 0;                 // else: times 2^exponent, rounded down
};

/// Whole numbers stay; with fractions, all are scaled by one power of two so that the largest
/// column adds up to 49 to 50 bits. Rounding down keeps a lower bound a lower bound.
///
/// errors: Fault::kInput, naming the row, when a column adds up to more than kMostWhole
[[nodiscard]] ScaledLoads scale_loads(const NumberTable& table);

/// What the buckets hold, in the units of the table.
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
  /// As it is printed: without a fraction where the table has none.
  [[nodiscard]] Json number(double load) const;
};

[[nodiscard]] BucketSums sum_buckets(const NumberTable& table, const ScaledLoads& scaled,
                                     const schedule::Balance& found, std::int64_t buckets);

}  // namespace tributary::app
