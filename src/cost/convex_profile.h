#pragma once

#include "config/artifact/profile.h"

namespace tributary::cost {

/// A profile whose times and bytes, as functions of tokens or of the bytes of a collective, are the
/// greatest convex ones that start with nothing at none and are nowhere above the measured ones.
///
/// With them the mean size of some passes says what all of them take at least: bounds hold although
/// measured times have bends of either kind.
///
/// cost: linear in the points
[[nodiscard]] config::Profile convex_below(config::Profile profile);

}  // namespace tributary::cost
