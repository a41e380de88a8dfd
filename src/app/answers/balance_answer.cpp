#include "app/answers/balance_answer.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/stopwatch.h"

namespace tributary::app {
namespace {

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
/// errors: Fault::kInput, naming the row, when a column adds up to more than kMaxWhole
ScaledLoads scale_loads(const NumberTable& table) {
  std::vector<double> total(static_cast<std::size_t>(table.width));
  ScaledLoads scaled = {.width = table.width, .whole = {}};
  for (std::size_t i = 0; i < table.values.size(); ++i) {
    const double value = table.values[i];
    total[i % total.size()] += value;
    scaled.is_exact = scaled.is_exact && value == std::floor(value);
    TRIB_REQUIRE(total[i % total.size()] <= kMaxWhole,
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

}  // namespace

Json BucketSums::number(double load) const {
  return is_exact ? Json(static_cast<std::int64_t>(load)) : Json(load);
}

double BalanceAnswer::gap() const {
  return sums.lower_bound == 0 ? 0.0 : sums.value / sums.lower_bound - 1.0;
}

void check_request(const BalanceRequest& request) {
  const auto name = [&](const char* plain) { return argument_name(request.caller, plain); };
  TRIB_REQUIRE(request.buckets >= 1 && request.buckets <= schedule::kMaxBuckets,
               .what = "app: value cannot be used", .where = name("buckets"),
               .found = str(request.buckets), .expected = str("1 to ", schedule::kMaxBuckets));
  TRIB_REQUIRE(request.deadline_ms >= 0 && std::isfinite(request.deadline_ms),
               .what = "app: value cannot be used", .where = name("deadline_ms"),
               .found = str(request.deadline_ms), .expected = "0 (none) or above");
  TRIB_REQUIRE(request.evaluations >= 0, .what = "app: value cannot be used",
               .where = name("evaluations"), .found = str(request.evaluations),
               .expected = "0 (the standard number) or above");
  TRIB_REQUIRE(
      request.deadline_ms == 0 || request.evaluations == 0,
      .what = "app: two budgets for one search", .where = name("evaluations"),
      .found = str(request.evaluations, " beside ", name("deadline_ms"), " ", request.deadline_ms),
      .expected = "one of them", .fix = "a deadline ends the search by the clock alone");
}

BalanceAnswer answer_balance(const BalanceRequest& request, const NumberTable& table) {
  check_request(request);
  const ScaledLoads loads = scale_loads(table);
  const Stopwatch watch;
  schedule::BalanceBudget budget;
  if (request.evaluations > 0) budget.evaluations = request.evaluations;
  if (request.deadline_ms > 0) {
    budget.is_late = [&] { return 1e3 * watch.seconds() >= request.deadline_ms; };
  }
  BalanceAnswer answer;
  answer.found = schedule::balance(
      {.buckets = request.buckets, .dimensions = loads.width, .loads = loads.whole}, budget);
  answer.milliseconds = 1e3 * watch.seconds();
  answer.sums = sum_buckets(table, loads, answer.found, request.buckets);
  return answer;
}

std::string_view name_of(schedule::BalanceStatus status) {
  switch (status) {
    case schedule::BalanceStatus::kOptimal:
      return "optimal";
    case schedule::BalanceStatus::kFeasible:
      return "feasible";
    case schedule::BalanceStatus::kTruncated:
      return "truncated";
  }
  TRIB_RAISE(Fault::kBug, .what = "app: status without a name");
}

Json to_json(const BalanceAnswer& answer) {
  const BucketSums& sums = answer.sums;
  Json loads = Json::array();
  for (std::int64_t bucket = 0; bucket < sums.buckets; ++bucket) {
    Json row = Json::array();
    for (std::int64_t column = 0; column < sums.width; ++column) {
      row.push_back(sums.number(sums.at(bucket, column)));
    }
    loads.push_back(std::move(row));
  }
  return {{"assignment", answer.found.bucket_of},
          {"buckets", sums.buckets},
          {"loads", loads},
          {"value", sums.number(sums.value)},
          {"lower_bound", sums.number(sums.lower_bound)},
          {"gap", answer.gap()},
          {"status", name_of(answer.found.status)},
          {"milliseconds", answer.milliseconds}};
}

}  // namespace tributary::app
