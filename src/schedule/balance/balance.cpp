#include "schedule/balance/balance.h"

#include <algorithm>

#include "core/error.h"
#include "schedule/balance/balance_bound.h"
#include "schedule/balance/branch_and_bound.h"
#include "schedule/balance/local_search.h"
#include "schedule/balance/lower_excess.h"
#include "schedule/balance/place_longest_first.h"

namespace tributary::schedule {
namespace {

constexpr std::int64_t kEvaluationsBeforeBranching = 100'000;

// For each item. Searches take turns, because one may find what another does not. Turns do not
// depend on the budget, so that a larger budget continues where a smaller one ended.
constexpr std::int64_t kEvaluationsOfATurn = 512;
constexpr std::int64_t kTurnsWithTargets = 4;
constexpr std::int64_t kFirstShare = 8;  // part of the distance to `low` that a target leaves
constexpr std::int64_t kLaterShare = 2;  // after a target was missed

/// The value from which on further search is not worth it.
std::int64_t find_enough(std::int64_t bound, double enough_gap) {
  return bound + static_cast<std::int64_t>(static_cast<double>(bound) * enough_gap);
}

/// Searches briefly, as for many items, and then through all arrangements. Returns true when it has
/// seen all: then the value is the bound.
bool solve_exactly(Partition& partition, const BalanceBudget& budget, Balance& result) {
  Effort first(budget, kEvaluationsBeforeBranching);
  (void)search_locally(partition, result.lower_bound, first);
  Effort second(budget);
  const bool is_proven = branch_and_bound(partition, result.lower_bound, second);
  if (is_proven) result.lower_bound = partition.value(partition.worst());
  result.evaluations = first.spent() + second.spent();
  return is_proven;
}

/// Lowers a target between `enough` and the value step by step; where it is missed, aims less low.
void search_by_targets(Partition& partition, std::int64_t enough, Effort& effort) {
  const std::int64_t turn = kEvaluationsOfATurn * partition.items();
  const std::int64_t last = effort.spent() + kTurnsWithTargets * turn;
  std::int64_t share = kFirstShare;
  std::int64_t low = enough;
  std::int64_t value = partition.value(partition.worst());
  while (value > low && effort.spent() < last && !effort.is_over()) {
    const std::int64_t target = low + (value - low) / share;
    effort.allow(turn);
    if (!lower_excess(partition, target, effort)) {
      share = kLaterShare;
      low = target + 1;
    }
    value = partition.value(partition.worst());
  }
}

/// Searches in turns; true when it reached `enough`, or where no search can continue.
bool search_by_turns(Partition& partition, std::int64_t enough, Effort& effort) {
  effort.allow(kEvaluationsOfATurn * partition.items());
  (void)search_locally(partition, enough, effort);
  search_by_targets(partition, enough, effort);
  effort.allow(Effort::kNoLimit);
  return search_locally(partition, enough, effort);
}

}  // namespace

double Balance::gap() const {
  return lower_bound == 0 ? 0.0 : double(value) / double(lower_bound) - 1.0;
}

Balance balance(const BalanceProblem& problem, const BalanceBudget& budget) {
  Balance result;
  result.lower_bound = balance_bound(problem);
  Partition partition(problem);
  place_longest_first(partition);
  bool is_finished = false;
  if (partition.items() <= kMaxExactItems) {
    is_finished = solve_exactly(partition, budget, result);
  } else {
    Effort effort(budget);
    is_finished =
        search_by_turns(partition, find_enough(result.lower_bound, budget.enough_gap), effort);
    result.evaluations = effort.spent();
  }
  result.bucket_of = partition.assignment();
  result.value = partition.value(partition.worst());
  result.status = result.value <= result.lower_bound ? BalanceStatus::kOptimal
                  : is_finished                      ? BalanceStatus::kFeasible
                                                     : BalanceStatus::kTruncated;
  return result;
}

void check_problem(const BalanceProblem& problem) {
  TRIB_REQUIRE(problem.buckets >= 1 && problem.buckets <= kMaxBuckets,
               .what = "schedule: number of buckets out of range", .found = str(problem.buckets),
               .expected = str("1 to ", kMaxBuckets));
  TRIB_REQUIRE(problem.dimensions >= 1 && std::ssize(problem.loads) % problem.dimensions == 0,
               .what = "schedule: loads are no whole rows",
               .found = str(problem.loads.size(), " loads in ", problem.dimensions, " dimensions"),
               .expected = "items * dimensions loads, at least 1 dimension");
  std::vector<std::int64_t> total(static_cast<std::size_t>(problem.dimensions));
  for (std::size_t i = 0; i < problem.loads.size(); ++i) {
    const std::size_t dimension = i % total.size();
    const std::int64_t load = problem.loads[i];
    TRIB_REQUIRE(
        load >= 0 && load <= kMaxLoad - total[dimension], .what = "schedule: load out of range",
        .where = str("item ", i / total.size(), ", dimension ", dimension), .found = str(load),
        .expected = str("at least 0, and at most ", kMaxLoad, " in all items together"));
    total[dimension] += load;
  }
  const std::int64_t held = std::ssize(problem.held);
  TRIB_REQUIRE(held == 0 || held == problem.dimensions,
               .what = "schedule: buckets hold other dimensions than items have",
               .found = str(held, " loads"), .expected = str(problem.dimensions, ", or none"));
  for (const std::int64_t load : problem.held)
    TRIB_REQUIRE(load >= 0 && load <= kMaxLoad, .what = "schedule: held load out of range",
                 .found = str(load), .expected = str("0 to ", kMaxLoad));
}

std::int64_t balance_value(const BalanceProblem& problem, std::span<const std::int32_t> bucket_of) {
  std::vector<std::int64_t> loads(static_cast<std::size_t>(problem.buckets * problem.dimensions));
  if (!problem.held.empty())
    for (std::size_t i = 0; i < loads.size(); ++i) loads[i] = problem.held[i % problem.dimensions];
  for (std::size_t i = 0; i < problem.loads.size(); ++i) {
    const std::size_t item = i / problem.dimensions;
    loads[bucket_of[item] * problem.dimensions + i % problem.dimensions] += problem.loads[i];
  }
  return loads.empty() ? 0 : *std::max_element(loads.begin(), loads.end());
}

}  // namespace tributary::schedule
