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

}  // namespace tributary::schedule
