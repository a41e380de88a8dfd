#pragma once

#include <span>

#include "core/units.h"
#include "schedule/packed_bins.h"

namespace tributary::schedule {

/// Packs a window that is known as a whole, the longest item first (ties: the first one), each into
/// the fullest bin that has room.
///
/// shape:  lengths [items], each 1 to capacity -> bins in the order in which they were opened
/// errors: Fault::kInput naming the item that is longer than the capacity
/// cost:   O(items log) time; 16,384 items at 32,768: 1.8 ms (bench/schedule/pack_bench)
/// source: Johnson 1974, "Worst-case performance bounds for simple one-dimensional packing
///         algorithms": at most 11/9 of the fewest bins plus 6/9 (Dosa 2007)
[[nodiscard]] PackedBins pack_decreasing(std::span<const Tokens> lengths, Tokens capacity);

}  // namespace tributary::schedule
