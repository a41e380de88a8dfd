#pragma once

#include <span>

#include "config/run_config.h"
#include "core/units.h"
#include "schedule/packed_bins.h"

namespace tributary::schedule {

/// Packs by the rule that the configuration names; kNone gives every item a bin of its own.
///
/// errors: Fault::kInput naming the item that is longer than the capacity
[[nodiscard]] PackedBins pack(config::Packing rule, std::span<const Tokens> lengths,
                              Tokens capacity);

}  // namespace tributary::schedule
