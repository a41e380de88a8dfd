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
  if (stopped == "bad_data") return pill("bad", "stopped: data");
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

std::int64_t last_step(const RunRecord& run) {
  return run.steps.empty() ? 0 : run.steps.back().step;
}

std::string bold_steps(std::int64_t steps) {
  return str("<strong>", show_count(static_cast<double>(steps)), steps == 1 ? " step" : " steps",
             "</strong>");
}

/// The state of a run without a summary: it goes on, or it was ended by something.
std::string unfinished_sentence(const RunRecord& run) {
  std::string text =
      "The run has recorded " + bold_steps(last_step(run)) + " and has not come to its end";
  if (!run.failure.empty()) return text + ": " + html(run.failure);
  if (!run.refused.empty())
    return str(text, "; it refused ", show_count(static_cast<double>(run.refused.size())),
               " records (see Incidents), and ends at too many of them.");
  return text + ": it goes on, or it was killed. Its output says which.";
}

std::string non_finite_sentence(const RunRecord& run) {
  std::string reason;
  for (const StepRecord& step : run.steps)
    if (step.skipped) reason = step.skip_reason;
  return str("The run ended itself after ", bold_steps(last_step(run)),
             ": its last steps were skipped, ", html(reason.empty() ? "not finite" : reason),
             ". No accuracy was measured.");
}

std::string lead_sentence(const RunRecord& run) {
  if (!run.summary) return unfinished_sentence(run);
  if (run.summary->stopped == "non_finite") return non_finite_sentence(run);
  if (run.summary->stopped == "bad_data")
    return str("The run was stopped after ", bold_steps(last_step(run)),
               " by its data: ", html(run.failure),
               " Once they are mended, <code>--resume auto</code> goes on.");
  if (run.summary->stopped == "terminated")
    return str("The run was stopped after ", bold_steps(last_step(run)),
               "; <code>--resume auto</code> goes on from its checkpoint.");
  const MaybeNumber accuracy = overall_accuracy(run);
  if (!accuracy)
    return str("The run has done its ", bold_steps(last_step(run)),
               ". No held-out question was answered, so there is no accuracy.");
  std::string text = str("The model answers <strong>", show_percent(*accuracy),
                         "</strong> of the held-out questions exactly");
  if (run.summary->blind_accuracy)
    text += str("; with the pixels set to zero the same model answers <strong>",
                show_percent(*run.summary->blind_accuracy), "</strong>");
  return text + ".";
}

/// The mean loss of summary.json, computed from the steps because that file may not exist yet.
std::string loss_figure(const RunRecord& run) {
  constexpr int kLossSteps = 50;
  double sum = 0;
  int steps = 0;
  for (auto step = run.steps.rbegin(); step != run.steps.rend() && steps < kLossSteps; ++step) {
    if (!step->loss || step->skipped) continue;
    sum += *step->loss;
    ++steps;
  }
  if (steps == 0) return "";
  return figure("Training loss", show_number(sum / steps),
                str("mean of the last ", steps, " steps"));
}

double sum_of_seconds(const RunRecord& run) {
  double sum = 0;
  for (const StepRecord& step : run.steps) sum += wall_seconds(step);
  return sum;
}

std::string speed_figures(const RunRecord& run) {
  const Summary summary = run.summary.value_or(Summary{});
  const double steps =
      summary.steps.value_or(run.steps.empty() ? 0 : static_cast<double>(run.steps.back().step));
  std::string text = figure("Steps", show_count(steps),
                            summary.tokens ? show_count(*summary.tokens) + " tokens" : "");
  if (summary.epochs)
    text += figure("Epochs", show_number(*summary.epochs), "of the training records");
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
    figures += figure("Accuracy", with_unit(show_percent(*accuracy)),
                      str("held-out, ", run.meaning_of_accuracy()), " main");
  if (summary.blind_accuracy)
    figures += figure("Blind accuracy", with_unit(show_percent(*summary.blind_accuracy)),
                      "pixels set to zero");
  figures += loss_figure(run);
  return str("<header id=\"top\">\n<p class=\"eyebrow\">Training run</p>\n<h1>", html(run.name),
             status_pill(run), "</h1>\n<p class=\"lead\">", lead_sentence(run),
             "</p>\n<dl class=\"figures\">\n", figures, speed_figures(run), "</dl>\n</header>\n");
}

}  // namespace tributary::app
