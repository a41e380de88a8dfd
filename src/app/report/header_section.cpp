#include <algorithm>

#include "app/report/html.h"
#include "app/report/sections.h"
#include "core/text.h"

namespace tributary::app {
namespace {

std::string status_pill(const RunRecord& run) {
  const auto pill = [](const char* kind, const std::string& text) {
    return str(" <span class=\"pill ", kind, "\">", html(text), "</span>");
  };
  if (!run.summary) return pill("warn", "not finished");
  const std::string& stopped = run.summary->stopped;
  if (stopped == "terminated") return pill("warn", "stopped early");
  if (stopped == "non_finite") return pill("bad", "stopped: not finite");
  return pill("good", stopped.empty() || stopped == "done" ? "finished" : stopped);
}

std::string figure(const std::string& name, const std::string& value, const std::string& note = {},
                   const char* kind = "") {
  return str("<div class=\"figure", kind, "\"><dt>", html(name), "</dt><dd>", value, "</dd>",
             note.empty() ? "" : str("<p class=\"note\">", html(note), "</p>"), "</div>\n");
}

/// A value with its unit set smaller: "241 s" from "241" and "s".
std::string with_unit(const std::string& shown) {
  const std::size_t space = shown.rfind(' ');
  if (space == std::string::npos) return html(shown);
  return str(html(shown.substr(0, space)), " <small>", html(shown.substr(space + 1)), "</small>");
}

MaybeNumber overall_accuracy(const RunRecord& run) {
  if (!run.summary || !run.summary->accuracy.contains("overall")) return std::nullopt;
  return run.summary->accuracy.at("overall");
}

std::string lead_sentence(const RunRecord& run) {
  const MaybeNumber accuracy = overall_accuracy(run);
  if (!accuracy) {
    const std::int64_t steps = run.steps.empty() ? 0 : run.steps.back().step;
    return str("The run has recorded <strong>", show_count(static_cast<double>(steps)),
               " steps</strong>; its figures at the end are not written yet.");
  }
  std::string text = str("The model answers <strong>", show_percent(*accuracy),
                         "</strong> of the held-out questions exactly");
  if (run.summary->blind_accuracy)
    text += str("; with the pixels set to zero the same model answers <strong>",
                show_percent(*run.summary->blind_accuracy), "</strong>");
  return text + ".";
}

double sum_of_seconds(const RunRecord& run) {
  double sum = 0;
  for (const StepRecord& step : run.steps)
    for (const auto& [phase, seconds] : step.seconds) sum += seconds;
  return sum;
}

std::string speed_figures(const RunRecord& run) {
  const Summary summary = run.summary.value_or(Summary{});
  const double steps =
      summary.steps.value_or(run.steps.empty() ? 0 : static_cast<double>(run.steps.back().step));
  std::string text = figure("Steps", show_count(steps),
                            summary.tokens ? show_count(*summary.tokens) + " tokens" : "");
  if (summary.tokens_per_second)
    text += figure("Throughput", show_count(*summary.tokens_per_second) + " <small>tok/s</small>");
  if (summary.wall_seconds) {
    text += figure("Wall time", with_unit(show_duration(*summary.wall_seconds)));
  } else if (!run.steps.empty()) {
    text += figure("Step time", with_unit(show_duration(sum_of_seconds(run))), "sum so far");
  }
  if (summary.peak_bytes) text += figure("Peak memory", with_unit(show_bytes(*summary.peak_bytes)));
  return text;
}

}  // namespace

std::string header_section(const RunRecord& run) {
  const Summary summary = run.summary.value_or(Summary{});
  std::string figures;
  if (const MaybeNumber accuracy = overall_accuracy(run))
    figures +=
        figure("Accuracy", with_unit(show_percent(*accuracy)), "held-out, exact match", " main");
  if (summary.blind_accuracy)
    figures += figure("Blind accuracy", with_unit(show_percent(*summary.blind_accuracy)),
                      "pixels set to zero");
  const auto last = std::find_if(run.steps.rbegin(), run.steps.rend(),
                                 [](const StepRecord& step) { return step.loss.has_value(); });
  if (last != run.steps.rend())
    figures += figure("Training loss", show_number(*last->loss),
                      str("at step ", show_count(static_cast<double>(last->step))));
  return str("<header id=\"top\">\n<p class=\"eyebrow\">Training run</p>\n<h1>", html(run.name),
             status_pill(run), "</h1>\n<p class=\"lead\">", lead_sentence(run),
             "</p>\n<dl class=\"figures\">\n", figures, speed_figures(run), "</dl>\n</header>\n");
}

}  // namespace tributary::app
