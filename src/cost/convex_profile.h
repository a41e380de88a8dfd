#pragma once

#include "config/artifact/profile.h"

namespace tributary::cost {

/// A profile with the greatest convex curves below the measured ones, from 0 at size 0: times and
/// bytes by tokens, collectives by bytes, and attention by pairs for each item.
/// || On a convex curve the mean size of some passes gives a lower bound on their sum, so bounds
/// hold although measured times bend both ways.
///
/// cost: linear in the points
[[nodiscard]] config::Profile convex_below(config::Profile profile);

}  // namespace tributary::cost
