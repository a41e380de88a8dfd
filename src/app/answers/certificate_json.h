#pragma once

#include "core/json.h"
#include "plan/certificate.h"

namespace tributary::app {

/// value / bound - 1; a bound below 1 ns counts as 1 ns.
[[nodiscard]] double gap_above(Nanoseconds value, Nanoseconds bound);

/// The certificate of a search as JSON, in whole nanoseconds: status, value_ns, lower_bound_ns,
/// gap, evaluations, limit.
[[nodiscard]] Json to_json(const plan::Certificate& certificate);

}  // namespace tributary::app
