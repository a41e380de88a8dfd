#pragma once

#include "app/requests/simulate_request.h"
#include "config/trace/trace.h"

namespace tributary::app {

/// Simulates steps of a plan, or of a workload of SimAI; the trace shows the median one.
///
/// errors: Fault::kInput naming key and value; a plan that does not fit in memory is an answer
[[nodiscard]] config::Trace answer_simulate(const SimulateRequest& request);

}  // namespace tributary::app
