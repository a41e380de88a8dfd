#pragma once

#include "schedule/balance/effort.h"
#include "schedule/balance/partition.h"

namespace tributary::schedule {

/// Brings all buckets to `target`. A random bucket above it exchanges up to two items for up to two
/// others with a bucket that has enough room for both, so that the total excess over the target
/// falls. Where no exchange lowers it, one that keeps it is taken, so that distant room is found.
/// Leaves `partition` at the best arrangement seen.
///
/// A search that looks only at the largest bucket gets stuck where many buckets are level and one
/// item in each is too much: the excess moves from bucket to bucket, and all steps look the same.
///
/// units:  every item is placed before. True when no bucket is above `target`; false when the
///         effort was used up
/// cost:   O(buckets + kPartners * kExchanged^4) a step
[[nodiscard]] bool lower_excess(Partition& partition, std::int64_t target, Effort& effort);

}  // namespace tributary::schedule
