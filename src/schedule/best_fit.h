#pragma once

#include <cstdint>
#include <span>

#include "core/units.h"
#include "schedule/packed_bins.h"

namespace tributary::schedule {

/// Puts the items in the given order, each into the fullest bin that has room; ties take the bin
/// that was opened first. pack_online() and pack_decreasing() share it.
///
/// units: `order` names each item once; lengths have passed check_lengths()
[[nodiscard]] PackedBins best_fit(std::span<const Tokens> lengths, Tokens capacity,
                                  std::span<const std::int32_t> order);

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
