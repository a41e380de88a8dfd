#pragma once

#include "schedule/balance/effort.h"
#include "schedule/balance/partition.h"

namespace tributary::schedule {

/// Relieves a bucket over three buckets, where no exchange helps: one of its items goes to a second
/// bucket, which ejects an item to a third one, which may return one to the first. All three end
/// below the present value of the first bucket. The first item that has a chain takes its best.
///
/// units:  false when nothing helps, or the effort was used up first
/// source: Glover 1996, "Ejection chains, reference structures and alternating path methods"
[[nodiscard]] bool relieve_by_chain(Partition& partition, std::int32_t worst, Effort& effort);

}  // namespace tributary::schedule
