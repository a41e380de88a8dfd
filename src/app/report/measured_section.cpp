#include "app/report/measured_section.h"

#include <algorithm>

#include "app/report/compare_page.h"
#include "app/report/html.h"
#include "app/report/run_rows.h"
#include "core/text.h"

namespace tributary::app {
namespace {

using studies::Comparison;
using studies::MethodResult;
using studies::SettingResult;

std::string bar(const char* kind, double part) {
  return str("<div class=\"", kind, "\"><i style=\"width:", show_number(100 * part),
             "%\"></i></div>");
}

std::string measured_bars(const SettingResult& setting) {
  double longest = 0;
  for (const MethodResult& method : setting.methods)
    longest = std::max({longest, method.step_s, method.run->median_s().value_or(0)});
  std::string rows;
  for (const MethodResult& method : fastest_measured_first(setting)) {
    const double measured = method.run->median_s().value_or(0);
    const bool has_plan = method.step_s > 0;
    rows += str("<div class=\"bar-row\"><div class=\"name\">", breakable(method.method),
                "</div><div class=\"track\">");
    if (has_plan)
      rows += bar("bar", measured / longest) + bar("bar blind", method.step_s / longest);
    rows += str("</div><div class=\"value\">",
                measured > 0 ? html(show_time(measured))
                : has_plan   ? "failed"
                             : "not run",
                has_plan ? str("<small>", html(show_time(method.step_s)), "</small>") : "",
                "</div></div>\n");
  }
  return str("<div class=\"bars\">\n", rows, "</div>\n");
}

std::string measured_table(const Comparison& comparison, const SettingResult& setting) {
  const bool has_base = setting.find(comparison.against) != nullptr;
  const auto number = [](const std::string& text) {
    return str("<td class=\"number\">", html(text), "</td>");
  };
  std::string text =
      "<div class=\"scroll\"><table><tr><th>Method</th><th>Simulated</th><th>Measured: min / "
      "median / max</th><th>Simulated beside measured</th>";
  if (has_base)
    text += str("<th>Against ", html(comparison.against),
                ": simulated</th><th>measured</th><th>published</th>");
  text += "</tr>\n";
  for (const RunRow& row : run_rows(comparison, setting)) {
    text += str("<tr><td class=\"name\">", html(row.method), "</td>", number(row.simulated),
                number(row.measured), number(row.error));
    if (has_base)
      text +=
          number(row.simulated_ratio) + number(row.measured_ratio) + number(row.published_ratio);
    text += "</tr>\n";
  }
  return text + "</table></div>\n";
}

/// The plan of each method, or why it did not run.
std::string plan_table(const Comparison& comparison, const SettingResult& setting) {
  std::string text = "<div class=\"scroll\"><table><tr><th>Method</th><th>Plan</th></tr>\n";
  for (const RunRow& row : run_rows(comparison, setting))
    text += str("<tr><td class=\"name\">", html(row.method), "</td><td>", html(row.remark),
                "</td></tr>\n");
  return text + "</table></div>\n";
}

}  // namespace

std::string measured_card(const Comparison& comparison, const SettingResult& setting) {
  std::string note;
  if (!setting.run->note.empty())
    note = str("<p class=\"about\">Profile: ", html(setting.run->note), "</p>\n");
  return str("<p class=\"about\">", html(describe_run(setting)),
             "; methods in turn. The upper bar of a method is measured, the lower one "
             "simulated from ",
             html(setting.run->profile), ".</p>\n<div class=\"card\">\n", measured_bars(setting),
             measured_table(comparison, setting), plan_table(comparison, setting),
             "<p class=\"about\"><b>", html(describe_pairs(setting.run->order)), "</b> ",
             html(describe_losses(setting)), "</p>\n", note, "</div>");
}

}  // namespace tributary::app
