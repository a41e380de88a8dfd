#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "app/report/compare_runs.h"
#include "app/report/run_record.h"
#include "config/trace/trace.h"

namespace tributary::app {

struct ReportLimits {
  std::size_t examples_per_source = 8;
  std::size_t image_bytes = std::size_t{24} << 20;  // of the whole page, in base64
  std::size_t chart_points = 1500;                  // for one curve
  double reload_seconds = 0;                        // the page loads itself anew; 0: it does not
};

/// The simulated trace of a run, and the trace that the run itself recorded, if any.
struct RunPrediction {
  config::Trace predicted;
  std::optional<config::Trace> measured;
};

/// A run as one self-contained HTML page: style, script, charts and pictures are inside, and its
/// policy makes the browser refuse every request.
///
/// `prediction` and `comparison` may be null: the page then lacks their sections. A comparison
/// needs a step of each run.
///
/// errors: none; the page says what the run did not record
[[nodiscard]] std::string write_report(const RunRecord& run, const ReportLimits& limits = {},
                                       const RunPrediction* prediction = nullptr,
                                       const RunComparison* comparison = nullptr);

/// A trace as a self-contained page: timeline, use of time, memory.
[[nodiscard]] std::string write_trace_report(const config::Trace& trace, const std::string& name);

/// Writes a page to a file, with the errors of write_given_file.
void write_report_file(const std::string& page, const std::string& path);

}  // namespace tributary::app
