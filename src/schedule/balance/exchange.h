#pragma once

#include "schedule/balance/effort.h"
#include "schedule/balance/partition.h"
#include "schedule/balance/tabu.h"

namespace tributary::schedule {

/// A move of an item out of the worst bucket, or its exchange for an item of another bucket.
struct Exchange {
  std::int64_t value = 0;  // max of both buckets afterwards
  std::int32_t given = Partition::kNowhere;
  std::int32_t taken = Partition::kNowhere;  // kNowhere: a move
  std::int32_t bucket = Partition::kNowhere;

  [[nodiscard]] bool is_found() const { return given != Partition::kNowhere; }
};

/// Finds the exchange after which the larger of the two buckets is smallest, and below `below`.
/// Items in `tabu` do not move. Ties take the first found.
///
/// units:  finds nothing when nothing helps, or the effort was used up first
/// cost:   O(members * (buckets + items with nearly the same load))
[[nodiscard]] Exchange find_exchange(const Partition& partition, std::int32_t worst,
                                     std::int64_t below, const Tabu& tabu, Effort& effort);

void apply(Partition& partition, const Exchange& exchange);

}  // namespace tributary::schedule
