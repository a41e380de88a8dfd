#pragma once

#include <string>

#include "config/trace.h"
#include "plan/simulate/simulate.h"

namespace tributary::plan {

/// The shown step as spans, and everything else as figures.
///
/// shape:  spans of the first `most_lanes` lanes; figures of all
[[nodiscard]] config::Trace trace_of(const Simulation& simulation, const std::string& plan,
                                     const std::string& cluster, int most_lanes = 128);

}  // namespace tributary::plan
