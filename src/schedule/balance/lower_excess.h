#pragma once

#include "schedule/balance/effort.h"
#include "schedule/balance/partition.h"

namespace tributary::schedule {

/// Brings all buckets to `target`: a bucket above it, drawn at random, and the bucket that together
/// with it has the most room exchange up to two items for up to two others, so that the sum of what
/// lies above the target falls. Where no exchange lowers the sum, one that keeps it does, so that
/// room far away is found. Leaves `partition` at the arrangement with the least value that it met.
///
/// Searching by the largest bucket alone ends where many buckets are level and one item in each is
/// too much: what is left above then moves from bucket to bucket, and every step looks the same.
///
/// units:  every item is placed before. True when no bucket is above `target`; false when the
///         effort was used up
/// cost:   O(buckets + kPartners * kExchanged^4) a step
[[nodiscard]] bool lower_excess(Partition& partition, std::int64_t target, Effort& effort);

}  // namespace tributary::schedule
