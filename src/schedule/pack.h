#pragma once

#include <cstdint>
#include <span>

#include "config/policies.h"
#include "core/units.h"
#include "schedule/packed_bins.h"

namespace tributary::schedule {

/// Packs by the rule of the configuration; kNone gives every item a bin of its own. kLevel packs as
/// kBestFitDecreasing, because the number of level bins is not known here.
///
/// errors: Fault::kInput naming the item that is longer than the capacity
[[nodiscard]] PackedBins pack(config::Packing rule, std::span<const Tokens> lengths,
                              Tokens capacity);

/// Packs a list of which only `window` items are known at a time; 0: the whole list. A rule for a
/// known window packs each window separately; kOnlineBestFit closes a bin `window` arrivals after
/// its first item.
///
/// shape:  bins in the order in which they were opened
/// errors: those of pack(); Fault::kInput for a window below 0
[[nodiscard]] PackedBins pack_windows(config::Packing rule, std::span<const Tokens> lengths,
                                      Tokens capacity, std::int64_t window);

}  // namespace tributary::schedule
