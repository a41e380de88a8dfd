#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace tributary::schedule {

/// Items to distribute over buckets. The dimensions are modules that work at the same time, so all
/// loads of an item have one unit.
struct BalanceProblem {
  std::int64_t buckets = 0;
  std::int64_t dimensions = 0;
  std::span<const std::int64_t> loads;  // [items, dimensions], each at least 0
  // [dimensions], each at least 0: what every bucket holds beforehand; empty: nothing. It shifts
  // the dimensions so that they are compared by their excess over a level of their own.
  std::span<const std::int64_t> held = {};

  [[nodiscard]] std::int64_t items() const { return std::ssize(loads) / dimensions; }
};

/// When the search stops without a proven optimum.
struct BalanceBudget {
  std::int64_t evaluations = 8'000'000;  // arrangements tried; the same on every machine
  double enough_gap = 1e-5;              // good enough where there are more than 24 items
  /// Polled now and then. Where it is set, it ends the search instead of `evaluations`, and the
  /// result depends on the machine.
  std::function<bool()> is_late = {};
};

enum class BalanceStatus {
  kOptimal,    // proven
  kFeasible,   // no exchange or chain helps any more
  kTruncated,  // the budget ended the search
};

/// The bucket of each item, and how good the arrangement is.
struct Balance {
  std::vector<std::int32_t> bucket_of;  // [items]
  std::int64_t value = 0;               // max load of any bucket in any dimension
  std::int64_t lower_bound = 0;         // no arrangement is below this
  BalanceStatus status = BalanceStatus::kFeasible;
  std::int64_t evaluations = 0;

  /// value / lower_bound - 1
  [[nodiscard]] double gap() const;
};

/// Distributes items over buckets so that the max load of any bucket in any dimension is small: the
/// longest item first; then exchanges and ejection chains on the worst bucket, in turn with
/// exchanges that lower the excess over a target; and for few items branch and bound.
///
/// units:  all loads in one unit, nanoseconds where they are times
/// owns:   nothing; equal items are alike, so the value does not depend on the order of the items;
///         with at least as many items as buckets no bucket is empty
/// errors: Fault::kInput when there is no bucket or no dimension, when loads are no whole rows or
///         below 0, and when a dimension adds up to more than kMaxLoad
/// cost:   2,048 items in two dimensions over 256 buckets: bench/schedule/balance_bench
/// source: DFLOP, equation 6, in d dimensions; its bound and search are ours
[[nodiscard]] Balance balance(const BalanceProblem& problem, const BalanceBudget& budget = {});

/// Checks what every part of balancing needs; the errors of balance().
void check_problem(const BalanceProblem& problem);

/// The max load of any bucket in any dimension.
[[nodiscard]] std::int64_t balance_value(const BalanceProblem& problem,
                                         std::span<const std::int32_t> bucket_of);

inline constexpr std::int64_t kMaxLoad = std::int64_t{1} << 60;
inline constexpr std::int64_t kMaxBuckets = std::int64_t{1} << 20;

}  // namespace tributary::schedule
