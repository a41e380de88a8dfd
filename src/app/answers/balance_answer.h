#pragma once

#include <cstdint>
#include <string_view>

#include "app/requests/given_options.h"
#include "app/requests/read_table.h"
#include "core/json.h"
#include "schedule/balance/balance.h"

namespace tributary::app {

struct BalanceRequest {
  std::int64_t buckets = 0;
  double deadline_ms = 0;        // 0: none
  std::int64_t evaluations = 0;  // arrangements to look at; 0: the default of the budget
  Caller caller = Caller::kCommandLine;
};

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

struct BalanceAnswer {
  schedule::Balance found;
  BucketSums sums;
  double milliseconds = 0;

  /// value / lower bound - 1
  [[nodiscard]] double gap() const;
};

/// errors: Fault::kInput naming the argument that is out of range
void check_request(const BalanceRequest& request);

/// Distributes items over buckets so that the largest load is small.
///
/// shape:  loads [items, dimensions]
/// errors: Fault::kInput as check_request; naming the row, when a column adds up to more than
///         kMaxWhole
[[nodiscard]] BalanceAnswer answer_balance(const BalanceRequest& request, const NumberTable& loads);

[[nodiscard]] std::string_view name_of(schedule::BalanceStatus status);
/// The object that docs/guides/balance.md explains.
[[nodiscard]] Json to_json(const BalanceAnswer& answer);

}  // namespace tributary::app
