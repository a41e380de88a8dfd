#pragma once

#include <cstdint>

#include "schedule/balance/balance.h"

namespace tributary::schedule {

/// A lower bound on the value of any arrangement: in each dimension the mean bucket, the largest
/// item, and what the fullest bucket holds at least of the k * buckets + 1 largest items.
///
/// errors: those of balance()
/// cost:   O(dimensions * items log items)
/// source: Graham 1969, "Bounds on multiprocessing timing anomalies"; the last bound is the
///         pigeonhole argument for every k; units: Fekete 2001, "New classes of fast lower bounds
///         for bin packing problems", the simplest of its dual feasible functions
[[nodiscard]] std::int64_t balance_bound(const BalanceProblem& problem);

}  // namespace tributary::schedule
