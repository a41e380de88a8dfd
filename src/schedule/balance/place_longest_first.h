#pragma once

#include "schedule/balance/partition.h"

namespace tributary::schedule {

/// Places items by descending max load, each into the bucket whose max load is then smallest; ties
/// take the smallest sum of loads, then the lowest number. Then it fills empty buckets, each with
/// the smallest item of the fullest bucket that has several.
///
/// units:  nothing is placed before
/// cost:   O(items * min(buckets, kMaxCandidates) * dimensions). With more buckets, the candidates
///         are the least loaded one and those beside it in a heap by value
/// source: Graham 1969, "Bounds on multiprocessing timing anomalies" (LPT), judged by the largest
///         of d dimensions
void place_longest_first(Partition& partition);

inline constexpr std::int32_t kMaxCandidates = 1023;  // ten whole levels of the heap

}  // namespace tributary::schedule
