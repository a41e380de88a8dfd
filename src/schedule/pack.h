#pragma once

#include <cstdint>
#include <span>

#include "config/policies.h"
#include "core/units.h"
#include "schedule/packed_bins.h"

namespace tributary::schedule {

/// Packs by the rule that the configuration names; kNone gives every item a bin of its own. How
/// many level ones there are to be is not known here: kLevel packs as kBestFitDecreasing.
///
/// errors: Fault::kInput naming the item that is longer than the capacity
[[nodiscard]] PackedBins pack(config::Packing rule, std::span<const Tokens> lengths,
                              Tokens capacity);

/// The same for a list of which only a window of `window` items is known at a time: a rule for a
/// known window packs each so many items by themselves, kOnlineBestFit closes a bin so many
/// arrivals after its first item. 0 is the whole list.
///
/// shape:  bins in the order in which they were opened
/// errors: those of pack(); Fault::kInput for a window below 0
[[nodiscard]] PackedBins pack_windows(config::Packing rule, std::span<const Tokens> lengths,
                                      Tokens capacity, std::int64_t window);

}  // namespace tributary::schedule
