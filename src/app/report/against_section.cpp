#include "app/report/html.h"
#include "app/report/sections.h"
#include "core/text.h"

namespace tributary::app {
namespace {

std::string count_of(std::int64_t steps) { return show_count(static_cast<double>(steps)); }

std::string table_row(const std::string& name, const std::string& note, const std::string& own,
                      const std::string& other, const std::string& result) {
  return str("<tr><td>", html(name), note.empty() ? "" : str("<br><small>", html(note), "</small>"),
             "</td><td class=\"number\">", html(own), "</td><td class=\"number\">", html(other),
             "</td><td class=\"number\">", html(result), "</td></tr>\n");
}

std::string loss_rows(const LossComparison& loss) {
  const double difference = loss.own_mean - loss.other_mean;
  return table_row(str("Loss, mean of the last ", loss.last_steps, " common steps"),
                   str("steps ", count_of(loss.first_of_last), " to ", count_of(loss.last)),
                   show_number(loss.own_mean), show_number(loss.other_mean),
                   str("difference ", difference > 0 ? "+" : "", show_number(difference))) +
         table_row("Loss, where the runs differ most",
                   str("step ", count_of(loss.largest_at), ", of ", count_of(loss.steps)),
                   show_number(loss.own_there), show_number(loss.other_there),
                   str("max |difference| ", show_number(loss.largest)));
}

std::string ratio_row(const std::string& name, const StepRatios& ratios,
                      std::string (*show)(double), const std::string& unit = {}) {
  return table_row(name, str("median of ", count_of(ratios.steps), " steps"),
                   show(ratios.own_median) + unit, show(ratios.other_median) + unit,
                   str("ratio ", show_number(ratios.median), " (", show_number(ratios.min), " to ",
                       show_number(ratios.max), ")"));
}

std::string figures_card(const RunComparison& comparison) {
  std::string rows;
  if (comparison.loss) rows += loss_rows(*comparison.loss);
  if (comparison.seconds) rows += ratio_row("Time of a step", *comparison.seconds, show_time);
  if (comparison.tokens_per_second)
    rows += ratio_row("Throughput", *comparison.tokens_per_second, show_count, " tokens/s");
  if (rows.empty())
    return "<p class=\"missing wide\">The runs have recorded no loss and no time for the same "
           "step.</p>\n";
  return str("<div class=\"card wide scroll\"><table><tr><th>figure</th><th class=\"number\">",
             html(comparison.own_name), "</th><th class=\"number\">", html(comparison.other_name),
             "</th><th></th></tr>\n", rows, "</table></div>\n");
}

std::string keys_card(const RunComparison& comparison) {
  if (comparison.keys.empty())
    return "<p class=\"missing wide\">No key of the two configurations differs.</p>\n";
  std::string text =
      str("<div class=\"card wide scroll\"><table id=\"keys\"><tr><th>key that differs</th><th>",
          html(comparison.own_name), "</th><th>", html(comparison.other_name), "</th></tr>\n");
  for (const KeyDifference& each : comparison.keys)
    text += str("<tr><td class=\"name mono\">", html(each.key), "</td><td class=\"mono\">",
                html(each.own.value_or("–")), "</td><td class=\"mono\">",
                html(each.other.value_or("–")), "</td></tr>\n");
  return text + "</table></div>\n";
}

std::string describe_steps(const RunRecord& run) {
  return str(count_of(run.steps.front().step), " to ", count_of(run.steps.back().step));
}

}  // namespace

std::string against_section(const RunRecord& run, const RunComparison& comparison) {
  return str("<section id=\"against\"><h2>Against ", html(comparison.other_name),
             "</h2>\n<p class=\"about\">", html(comparison.own_name), " has steps ",
             describe_steps(run), ", ", html(comparison.other_name), " has steps ",
             describe_steps(comparison.other), ": ", count_of(comparison.common_steps),
             " in common. Differences are the first run minus the second, ratios the first "
             "divided by the second, step by step: the median, and min to max in brackets. Times "
             "leave out the first tenth of the common steps.</p>\n<div class=\"grid\">\n",
             chart_card("against", "Loss of both runs", "per target token", /*wide=*/true),
             figures_card(comparison), keys_card(comparison), "</div></section>\n");
}

}  // namespace tributary::app
