#pragma once

#include "schedule/balance/effort.h"
#include "schedule/balance/partition.h"

namespace tributary::schedule {

/// Relieves the worst bucket repeatedly: by the best exchange that helps; where none does, at a new
/// best arrangement by an ejection chain; otherwise by the least harmful exchange, whose items then
/// stay for a while. Leaves `partition` at the best arrangement seen.
///
/// units:  every item is placed before. Ends at `enough`, when the effort is used up, or where not
///         even a harmful exchange exists; returns false only when the effort ended it
[[nodiscard]] bool search_locally(Partition& partition, std::int64_t enough, Effort& effort);

}  // namespace tributary::schedule
