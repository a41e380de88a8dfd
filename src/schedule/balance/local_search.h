#pragma once

#include "schedule/balance/effort.h"
#include "schedule/balance/partition.h"

namespace tributary::schedule {

/// Relieves the worst bucket again and again: by the best exchange that helps; at a new best
/// arrangement, where none does, by an ejection chain; else by the exchange that does the least
/// harm, whose items then stay for a while. Leaves `partition` at the best arrangement it met.
///
/// units:  every item is placed before. Ends at `enough`, when the effort is used up, or where not
///         even a harmful exchange exists; false only when the effort ended it
[[nodiscard]] bool search_locally(Partition& partition, std::int64_t enough, Effort& effort);

}  // namespace tributary::schedule
