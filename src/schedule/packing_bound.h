#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/units.h"

namespace tributary::schedule {

/// Lower bound on the number of bins.
///
/// shape:  lengths [items], each 1 to capacity
/// errors: Fault::kInput naming the item that is longer than the capacity
/// cost:   O(items log items)
/// source: Martello 1990, "Lower bounds and reduction procedures for the bin packing problem",
///         bound L2: at least 2/3 of the fewest bins
[[nodiscard]] std::int64_t packing_bound(std::span<const Tokens> lengths, Tokens capacity);
/// The same for plain sizes of any unit, which the caller has checked.
[[nodiscard]] std::int64_t packing_bound(std::vector<std::int64_t> sizes, std::int64_t capacity);

}  // namespace tributary::schedule
