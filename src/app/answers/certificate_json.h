#pragma once

#include "core/json.h"
#include "plan/certificate.h"

namespace tributary::app {

/// How far a value is above its bound; a bound below 1 ns counts as one.
[[nodiscard]] double gap_above(Nanoseconds value, Nanoseconds bound);

/// What a search proves, in whole nanoseconds: status, value_ns, lower_bound_ns, gap, evaluations,
/// limit.
[[nodiscard]] Json to_json(const plan::Certificate& certificate);

}  // namespace tributary::app
