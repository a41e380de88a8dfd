#include <algorithm>
#include <cstdlib>
#include <set>

#include "app/report/html.h"
#include "app/report/sections.h"
#include "core/text.h"

namespace tributary::app {
namespace {

std::string environment_value(const RunRecord& run, const std::string& key) {
  for (const auto& [name, value] : run.environment)
    if (name == key) return value;
  return "";
}

/// Says which peak FLOP/s the shares refer to: a measured peak differs from run to run.
std::string describe_peak(const RunRecord& run) {
  const double peak = std::strtod(environment_value(run, "peak_flops").c_str(), nullptr);
  const std::string from = environment_value(run, "peak_flops_from");
  if (!(peak > 0)) return "";
  return str("The peak is ", show_number(peak / 1e9), " GFLOP/s",
             from.empty() ? "" : " (" + from + ")",
             ". Runs compare by their share where their peaks are equal.");
}

struct SourceScore {
  std::string name;
  MaybeNumber accuracy, blind;
  std::size_t asked = 0, right = 0;
};

std::string bar_row(const SourceScore& score, bool total) {
  const auto bar = [](const char* kind, const MaybeNumber& share) {
    const double width = 100 * std::clamp(share.value_or(0), 0.0, 1.0);
    return str("<div class=\"bar", kind, "\"><i style=\"width:", show_number(width),
               "%\"></i></div>");
  };
  std::string row = str("<div class=\"bar-row", total ? " total" : "", "\"><div class=\"name\">",
                        html(score.name));
  if (score.asked > 0)
    row += str("<small>", show_count(static_cast<double>(score.right)), " of ",
               show_count(static_cast<double>(score.asked)), "</small>");
  row += str("</div><div class=\"track\">", bar("", score.accuracy),
             score.blind ? bar(" blind", score.blind) : "", "</div><div class=\"value\">",
             score.accuracy ? show_percent(*score.accuracy) : "–");
  if (score.blind) row += str("<small>blind ", show_percent(*score.blind), "</small>");
  return row + "</div></div>\n";
}

MaybeNumber find_number(const std::map<std::string, double>& map, const std::string& key) {
  const auto entry = map.find(key);
  return entry == map.end() ? std::nullopt : MaybeNumber(entry->second);
}

SourceScore score_of(const RunRecord& run, const std::string& source) {
  SourceScore score{source, find_number(run.summary->accuracy, source),
                    find_number(run.summary->blind_accuracy_by_source, source)};
  for (const Prediction& prediction : run.predictions) {
    if (source != "overall" && prediction.source != source) continue;
    ++score.asked;
    score.right += prediction.correct ? 1 : 0;
  }
  if (source == "overall") {
    score.name = "All sources";
    score.blind = run.summary->blind_accuracy;
  }
  return score;
}

/// The scores beside exact match; empty where the run measured none.
std::string score_table(const Summary& summary) {
  if (summary.scores.empty()) return "";
  std::string head = "<tr><th>mean score</th>";
  std::set<std::string> sources;
  for (const auto& [metric, by_source] : summary.scores) {
    head += str("<th class=\"number\">", html(metric), "</th>");
    for (const auto& [source, score] : by_source)
      if (source != "overall") sources.insert(source);
  }
  std::string rows;
  const auto add = [&](const std::string& source, const std::string& name) {
    rows += str("<tr><td>", html(name), "</td>");
    for (const auto& [metric, by_source] : summary.scores) {
      const MaybeNumber score = find_number(by_source, source);
      rows += str("<td class=\"number\">", score ? show_score(*score) : "–", "</td>");
    }
    rows += "</tr>";
  };
  add("overall", "All sources");
  for (const std::string& source : sources) add(source, source);
  return str("<table id=\"scores\">", head, "</tr>", rows, "</table>");
}

}  // namespace

std::string chart_card(const std::string& id, const std::string& title, const std::string& unit,
                       bool wide, const std::string& note) {
  return str("<div class=\"card", wide ? " wide" : "", "\"><div class=\"chart-head\"><h3>",
             html(title), "<span class=\"unit\">", html(unit),
             "</span></h3><div class=\"switches\"></div></div><div class=\"chart\" id=\"chart-", id,
             "\" data-label=\"", html(title), "\"></div>",
             note.empty() ? "" : str("<p class=\"note\">", html(note), "</p>"), "</div>\n");
}

std::string missing_box(const std::string& file, const std::string& content) {
  return str("<p class=\"missing\"><code>", html(file), "</code> is missing: ", html(content),
             "</p>\n");
}

std::string accuracy_section(const RunRecord& run) {
  std::string text =
      "<section id=\"accuracy\"><h2>Accuracy</h2>\n<p class=\"about\">Generated answers to "
      "held-out questions that equal the expected answer, by source.</p>\n";
  if (!run.summary) {
    text += missing_box("summary.json", "the run has not written its figures at the end.");
  } else if (run.summary->accuracy.empty()) {
    text += "<p class=\"missing\">The run measured no accuracy: it has no held-out samples.</p>\n";
  } else {
    std::string rows;
    if (run.summary->accuracy.contains("overall")) rows = bar_row(score_of(run, "overall"), true);
    for (const auto& [source, accuracy] : run.summary->accuracy)
      if (source != "overall") rows += bar_row(score_of(run, source), false);
    text += str("<div class=\"card\"><div class=\"bars\">\n", rows, "</div>");
    text += score_table(*run.summary);
    if (run.summary->blind_accuracy)
      text +=
          "<p class=\"key\"><span><i style=\"height:11px;background:var(--c0)\"></i>with the "
          "picture</span><span><i style=\"height:6px;background:var(--faint)\"></i>blind: pixels "
          "set to zero</span></p>";
    if (run.summary->cut_answers.value_or(0) > 0)
      text += str("<p class=\"about\">", show_count(*run.summary->cut_answers),
                  " answers were cut at ", show_count(run.summary->max_new_tokens.value_or(0)),
                  " tokens before they had ended; <code>validation.max_new_tokens</code> allows "
                  "more.</p>");
    text += "</div>\n";
  }
  return text + "</section>\n";
}

std::string learning_section(const RunRecord& run) {
  std::string text =
      "<section id=\"learning\"><h2>Learning</h2>\n<p class=\"about\">Loss is the mean over the " +
      std::string(run.compares_pairs ? "pairs" : "target tokens") +
      " of a global batch. Bold curves follow a running mean; point at a curve to "
      "read it, click a name to hide it.</p>\n<div class=\"grid\">\n";
  text += chart_card("loss", "Loss by source", run.compares_pairs ? "per pair" : "per target token",
                     /*wide=*/true);
  if (!run.validations.empty())
    text += chart_card("held-out", "Held-out accuracy", run.meaning_of_accuracy(), /*wide=*/true);
  text += chart_card("learning-rate", "Learning rate", "before group scales");
  text += chart_card("gradient", "Gradient norm", "before clipping");
  const bool moved = std::any_of(run.steps.begin(), run.steps.end(), [](const StepRecord& step) {
    return step.norms.contains("update");
  });
  if (moved)
    text += chart_card("update", "Update by module", "|new - old| / |old|", /*wide=*/true,
                       "How far a step moves the parameters that the run trains, as a share of "
                       "their norm; about 0.001 is usual.");
  text += "</div>\n";
  if (run.validations.empty())
    text += "<div style=\"height:16px\"></div>" +
            missing_box("validation.jsonl", "the run was not validated on the way.");
  return text + "</section>\n";
}

/// The last times when a run wanted another number of encoders, and why.
std::string describe_reallocations(const RunRecord& run) {
  constexpr std::size_t kShown = 5;
  std::vector<std::string> changes;
  for (const StepRecord& step : run.steps)
    if (const auto wanted = step.flow.find("wanted");
        wanted != step.flow.end() && !step.reallocation.empty())
      changes.push_back(str("After step ", step.step, ", ", show_count(wanted->second),
                            " wanted: ", step.reallocation, ". "));
  std::string text;
  if (changes.size() > kShown)
    text = str("Their number changed ", changes.size(), " times, at last: ");
  for (std::size_t i = changes.size() - std::min(changes.size(), kShown); i < changes.size(); ++i)
    text += changes[i];
  return text;
}

std::string speed_section(const RunRecord& run) {
  const auto recorded = [&](MaybeNumber StepRecord::*field) {
    return std::any_of(run.steps.begin(), run.steps.end(),
                       [field](const StepRecord& step) { return (step.*field).has_value(); });
  };
  std::string text =
      "<section id=\"speed\"><h2>Speed</h2>\n<p class=\"about\">Where the wall time of a step "
      "goes, and how full its microbatches are.</p>\n<div class=\"grid\">\n";
  text += chart_card("throughput", "Throughput", "tokens/s");
  text += chart_card("phases", "Time per phase", "of one step");
  text += chart_card("fill", "Packing", "share of the capacity");
  if (recorded(&StepRecord::bytes)) text += chart_card("memory", "Memory", "peak so far");
  if (recorded(&StepRecord::mfu))
    text += chart_card("machine", "FLOPs utilisation", "share of the peak", /*wide=*/false,
                       describe_peak(run));
  const bool waited = std::any_of(run.steps.begin(), run.steps.end(),
                                  [](const StepRecord& step) { return !step.waiting.empty(); });
  if (waited) text += chart_card("waiting", "Waiting", "of one step, for samples and packing");
  if (std::ranges::any_of(run.steps, [](const StepRecord& step) { return !step.flow.empty(); })) {
    text += chart_card("flow", "Encoders beside the run", "time of all ranks in one step",
                       /*wide=*/false,
                       "What ranks encode themselves is what no encoder had made in time.");
    text +=
        chart_card("encoders", "Time of encoders", "of all of them in one step",
                   /*wide=*/false, "The rest is idle: no sample was left to encode so far ahead.");
    text += chart_card("rates", "Rates", "objects a second", /*wide=*/false,
                       "What either side does when it does not wait for the other.");
    text += chart_card("members", "Encoders", "at the end of the step", /*wide=*/false,
                       describe_reallocations(run));
    text += chart_card("pool", "Features in the pool", "at the end of the step");
  }
  return text + "</div></section>\n";
}

}  // namespace tributary::app
