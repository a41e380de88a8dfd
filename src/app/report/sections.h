#pragma once

#include <string>
#include <vector>

#include "app/report/compare_runs.h"
#include "app/report/drawn_shares.h"
#include "app/report/embed_image.h"
#include "app/report/run_record.h"
#include "app/report/write_report.h"

namespace tributary::app {

// One function per part of the page, in order; each returns HTML.
[[nodiscard]] std::string header_section(const RunRecord& run);
[[nodiscard]] std::string against_section(const RunRecord& run, const RunComparison& comparison);
[[nodiscard]] std::string accuracy_section(const RunRecord& run);
[[nodiscard]] std::string learning_section(const RunRecord& run);
[[nodiscard]] std::string speed_section(const RunRecord& run);
[[nodiscard]] std::string prediction_section(const RunRecord& run, const ReportLimits& limits,
                                             ImageEmbedder& embedder);
[[nodiscard]] std::string answer_section(const RunRecord& run, const ReportLimits& limits,
                                         ImageEmbedder& embedder);
[[nodiscard]] std::string data_section(const DrawnSources& drawn);
[[nodiscard]] std::string sample_section(const RunRecord& run, ImageEmbedder& embedder);
[[nodiscard]] std::string incident_section(const RunRecord& run);
[[nodiscard]] std::string model_section(const RunRecord& run);
[[nodiscard]] std::string configuration_section(const RunRecord& run);
[[nodiscard]] std::string environment_section(const RunRecord& run);

/// The place of a chart, which the script draws: `id` names it there. `note` is a line below it.
[[nodiscard]] std::string chart_card(const std::string& id, const std::string& title,
                                     const std::string& unit, bool wide = false,
                                     const std::string& note = "");

/// The first pictures of a question or sample, side by side; empty without one.
[[nodiscard]] std::string picture_strip(const std::vector<std::string>& images,
                                        ImageEmbedder& embedder);

/// A box that says which file is missing and what it would show here.
[[nodiscard]] std::string missing_box(const std::string& file, const std::string& content);

}  // namespace tributary::app
