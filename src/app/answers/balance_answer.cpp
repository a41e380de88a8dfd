#include "app/answers/balance_answer.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/stopwatch.h"

namespace tributary::app {

double BalanceAnswer::gap() const {
  return sums.lower_bound == 0 ? 0.0 : sums.value / sums.lower_bound - 1.0;
}

void check_request(const BalanceRequest& request) {
  const auto name = [&](const char* plain) { return argument_name(request.caller, plain); };
  TRIB_REQUIRE(request.buckets >= 1 && request.buckets <= schedule::kMostBuckets,
               .what = "app: value cannot be used", .where = name("buckets"),
               .found = str(request.buckets), .expected = str("1 to ", schedule::kMostBuckets));
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
