#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "app/report/run_record.h"
#include "config/trace/trace.h"

namespace tributary::app {

struct ReportLimits {
  std::size_t examples_per_source = 8;
  std::size_t image_bytes = std::size_t{24} << 20;  // of the whole page, in base64
  std::size_t chart_points = 1500;                  // of one curve
};

/// What a simulation said of the run, and the trace that the run left, where it did.
struct RunPrediction {
  config::Trace predicted;
  std::optional<config::Trace> measured;
};

/// Writes a run as one HTML page that needs nothing else: style, script, charts and pictures are
/// inside, and the page asks the browser to refuse every request.
///
/// errors: none; what the run did not record is said where it would stand
[[nodiscard]] std::string write_report(const RunRecord& run, const ReportLimits& limits = {},
                                       const RunPrediction* prediction = nullptr);

/// A trace alone as such a page: timeline, use of time, memory.
[[nodiscard]] std::string write_trace_report(const config::Trace& trace, const std::string& name);

/// Writes a page, as write_given_file does.
void write_report_file(const std::string& page, const std::string& path);

}  // namespace tributary::app
