#pragma once

#include <string>

#include "config/trace/trace.h"

namespace tributary::app {

/// The parts of a page for a trace: figures, timeline, idle time by cause, memory. A measured trace
/// is drawn with the predicted one, lane by lane, on the same axis.
///
/// shape:  `measured` may be nullptr; 16 lanes are drawn, with at most 1,500 spans each
[[nodiscard]] std::string trace_sections(const config::Trace& predicted,
                                         const config::Trace* measured);

/// Time and peak memory of the steps of a run.
struct MeasuredSteps {
  double median_seconds = 0;
  double peak_bytes = 0;  // 0: was not recorded
  std::int64_t steps = 0;
};
[[nodiscard]] std::string prediction_table(const config::Trace& predicted,
                                           const MeasuredSteps& measured);

}  // namespace tributary::app
