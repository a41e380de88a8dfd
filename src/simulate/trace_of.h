#pragma once

#include <string>

#include "config/trace/trace.h"
#include "simulate/simulate.h"

namespace tributary::simulate {

/// The shown step as spans, and its other results as figures.
///
/// shape:  spans of the first `max_lanes` lanes; figures cover all lanes
[[nodiscard]] config::Trace trace_of(const Simulation& simulation, const std::string& plan,
                                     const std::string& cluster, int max_lanes = 128);

}  // namespace tributary::simulate
