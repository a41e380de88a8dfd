#pragma once

#include <cstddef>
#include <string>

#include "app/report/run_record.h"

namespace tributary::app {

struct ReportLimits {
  std::size_t examples_per_source = 8;
  std::size_t image_bytes = std::size_t{24} << 20;  // of the whole page, in base64
  std::size_t chart_points = 1500;                  // of one curve
};

/// Writes a run as one HTML page that needs nothing else: style, script, charts and pictures are
/// inside, and the page asks the browser to refuse every request.
///
/// errors: none; what the run did not record is said where it would stand
[[nodiscard]] std::string write_report(const RunRecord& run, const ReportLimits& limits = {});

/// Writes the page into a file, which a reader sees whole or not at all.
///
/// errors: Fault::kResource when it cannot be written
void write_report_file(const RunRecord& run, const std::string& path,
                       const ReportLimits& limits = {});

}  // namespace tributary::app
