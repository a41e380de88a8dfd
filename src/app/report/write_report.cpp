#include "app/report/write_report.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "app/report/chart_data.h"
#include "app/report/html.h"
#include "app/report/page_assets.h"
#include "app/report/page_frame.h"
#include "app/report/sections.h"
#include "app/report/trace_sections.h"
#include "core/file/given_file.h"

namespace tributary::app {
namespace {

constexpr const char* kNavigation = R"(<nav><div class="wrap">
<span class="brand"><svg viewBox="0 0 24 24" fill="none" stroke="currentColor" stroke-width="2.2" stroke-linecap="round" aria-hidden="true"><path d="M4 3c0 7 8 6 8 12v6"/><path d="M20 3c0 7-8 6-8 12"/></svg>Tributary</span>
<span class="links"><a href="#accuracy">Accuracy</a><a href="#learning">Learning</a><a href="#speed">Speed</a><a href="#predictions">Predictions</a><a href="#incidents">Incidents</a><a href="#configuration">Configuration</a><a href="#environment">Environment</a></span>
<button class="theme" type="button">Dark</button>
</div></nav>
)";

/// The steps after the first tenth, which warms up.
MeasuredSteps measure(const RunRecord& run) {
  std::vector<double> seconds;
  for (const StepRecord& step : run.steps) {
    double sum = 0;
    for (const auto& [phase, part] : step.seconds) sum += part;
    seconds.push_back(sum);
  }
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
                         const RunPrediction* prediction) {
  std::string page = str(open_page(run.name), kNavigation, "<main class=\"wrap\">\n");
  page += header_section(run);
  page +=
      "<noscript><p class=\"missing\">The charts need JavaScript; everything else is "
      "readable without it.</p></noscript>\n";
  page += accuracy_section(run);
  page += learning_section(run);
  page += speed_section(run);
  if (prediction != nullptr)
    page += prediction_table(prediction->predicted, measure(run)) +
            trace_sections(prediction->predicted,
                           prediction->measured ? &*prediction->measured : nullptr);
  page += prediction_section(run, limits);
  page += incident_section(run);
  page += configuration_section(run);
  page += environment_section(run);
  page += str("</main>\n<footer class=\"wrap\">Written by <code>tributary report</code> from ",
              html(run.directory), ". The page holds all it shows and makes no request.</footer>\n",
              "<dialog></dialog>\n<script type=\"application/json\" id=\"run-data\">",
              script_json(chart_data(run, limits.chart_points)), "</script>\n<script>\n",
              kPageScript, "</script>\n</body>\n</html>\n");
  return page;
}

std::string write_trace_report(const config::Trace& trace, const std::string& name) {
  return str(open_page(name), "<main class=\"wrap\">\n<header><p class=\"eyebrow\">",
             html(trace.summary.source), " step</p><h1>", html(name), "</h1><p class=\"lead\">",
             html(trace.summary.cluster), "</p></header>\n", trace_sections(trace, nullptr),
             "</main>\n<footer class=\"wrap\">Written by <code>tributary report</code>. The page "
             "holds all it shows and makes no request.</footer>\n</body>\n</html>\n");
}

void write_report_file(const std::string& page, const std::string& path) {
  write_given_file(path, page, {.what = "report: file cannot be written"});
}

}  // namespace tributary::app
