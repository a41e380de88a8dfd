#pragma once

#include "schedule/balance/effort.h"
#include "schedule/balance/partition.h"

namespace tributary::schedule {

/// Goes through all arrangements, the item with the largest load first, and skips those that cannot
/// beat the best one known. It leaves `partition` at the best. Buckets with equal loads are tried
/// once.
///
/// units:  `partition` holds an arrangement to begin with; `bound` is balance_bound(). True when
///         the result is proven to be the optimum, false when the effort was used up
/// cost:   exponential; meant for kMaxExactItems items
[[nodiscard]] bool branch_and_bound(Partition& partition, std::int64_t bound, Effort& effort);

inline constexpr std::int32_t kMaxExactItems = 24;

}  // namespace tributary::schedule
