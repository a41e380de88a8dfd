#pragma once

#include "schedule/balance/effort.h"
#include "schedule/balance/partition.h"

namespace tributary::schedule {

/// Relieves a bucket, where no exchange does, over three buckets: one of its items goes to a second
/// bucket, which ejects an item to a third one, which may eject one to the first. All three end
/// below the first bucket's value now. Takes the best chain of the first item that has any.
///
/// units:  false when nothing helps, or nothing was found before the effort was used up
/// source: Glover 1996, "Ejection chains, reference structures and alternating path methods"
[[nodiscard]] bool relieve_by_chain(Partition& partition, std::int32_t worst, Effort& effort);

}  // namespace tributary::schedule
