#pragma once

#include <string>

#include "config/trace/trace.h"

namespace tributary::app {

/// A trace as parts of a page: figures, timeline, idle time by cause, memory. A measured trace is
/// drawn over the predicted one, lane by lane, on the same axis.
///
/// shape:  `measured` may be nullptr; the first 16 lanes are drawn, the busiest 1,500 spans of each
[[nodiscard]] std::string trace_sections(const config::Trace& predicted,
                                         const config::Trace* measured);

/// The steps and the peak of a run beside the predicted ones.
struct MeasuredSteps {
  double median_seconds = 0;
  double peak_bytes = 0;  // 0: not recorded
  std::int64_t steps = 0;
};
[[nodiscard]] std::string prediction_table(const config::Trace& predicted,
                                           const MeasuredSteps& measured);

}  // namespace tributary::app
