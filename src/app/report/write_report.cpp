#include "app/report/write_report.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "app/report/chart_data.h"
#include "app/report/html.h"
#include "app/report/page_frame.h"
#include "app/report/sections.h"
#include "app/report/trace_sections.h"
#include "core/file/given_file.h"

namespace tributary::app {
namespace {

/// Measures the steps without the first tenth, in which the run warms up.
MeasuredSteps measure(const RunRecord& run) {
  std::vector<double> seconds;
  for (const StepRecord& step : run.steps) seconds.push_back(wall_seconds(step));
  seconds.erase(seconds.begin(), seconds.begin() + std::ssize(seconds) / 10);
  MeasuredSteps measured{.steps = std::ssize(seconds)};
  if (run.summary) measured.peak_bytes = run.summary->peak_bytes.value_or(0);
  if (seconds.empty()) return measured;
  const auto middle = seconds.begin() + std::ssize(seconds) / 2;
  std::nth_element(seconds.begin(), middle, seconds.end());
  measured.median_seconds = *middle;
  return measured;
}

}  // namespace

std::string write_report(const RunRecord& run, const ReportLimits& limits,
                         const RunPrediction* prediction, const RunComparison* comparison) {
  std::vector<PageLink> links{{"accuracy", "Accuracy"},
                              {"learning", "Learning"},
                              {"speed", "Speed"},
                              {"predictions", "Predictions"},
                              {"answers", "Answers"},
                              {"data", "Data"},
                              {"samples", "Samples"},
                              {"incidents", "Incidents"},
                              {"model", "Model"},
                              {"configuration", "Configuration"},
                              {"environment", "Environment"}};
  if (comparison != nullptr) links.insert(links.begin(), {"against", "Against"});
  std::string page = open_page(run.name, links);
  page += header_section(run);
  page +=
      "<noscript><p class=\"missing\">The charts need JavaScript; everything else is "
      "readable without it.</p></noscript>\n";
  if (comparison != nullptr) page += against_section(run, *comparison);
  page += accuracy_section(run);
  page += learning_section(run);
  page += speed_section(run);
  if (prediction != nullptr)
    page += prediction_table(prediction->predicted, measure(run)) +
            trace_sections(prediction->predicted,
                           prediction->measured ? &*prediction->measured : nullptr);
  ImageEmbedder embedder(run.directory, limits.image_bytes);
  page += prediction_section(run, limits, embedder);
  page += answer_section(run, limits, embedder);
  const DrawnSources drawn = count_drawn(run);
  page += data_section(drawn);
  page += sample_section(run, embedder);
  page += incident_section(run);
  page += model_section(run);
  page += configuration_section(run);
  page += environment_section(run);
  Json data = chart_data(run, drawn, limits.chart_points);
  if (comparison != nullptr) data["against"] = loss_curves(run, *comparison, limits.chart_points);
  std::string scripts = str("<dialog></dialog>\n<script type=\"application/json\" id=\"run-data\">",
                            script_json(data), "</script>\n<script>\n", kPageScript, "</script>\n");
  std::string footer =
      str("Written by <code>tributary report</code> from ", html(run.directory), ".");
  if (limits.reload_seconds > 0) {
    const std::string seconds = show_number(limits.reload_seconds);
    scripts += str("<script data-seconds=\"", seconds, "\">\n", kLiveScript, "</script>\n");
    footer +=
        str(" While the run goes on it is written anew, and loads itself every ", seconds, " s.");
  }
  return page + close_page(footer, scripts);
}

std::string write_trace_report(const config::Trace& trace, const std::string& name) {
  return str(
      open_page(name, {{"timeline", "Timeline"}, {"idle", "Use of time"}, {"memory", "Memory"}}),
      "<header id=\"top\"><p class=\"eyebrow\">", html(trace.summary.source), " step</p><h1>",
      html(name), "</h1><p class=\"lead\">", html(trace.summary.cluster), "</p></header>\n",
      trace_sections(trace, nullptr), close_page("Written by <code>tributary report</code>."));
}

void write_report_file(const std::string& page, const std::string& path) {
  write_given_file(path, page, {.what = "report: file cannot be written"});
}

}  // namespace tributary::app
