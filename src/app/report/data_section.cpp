#include <algorithm>

#include "app/report/drawn_shares.h"
#include "app/report/html.h"
#include "app/report/sections.h"
#include "core/text.h"

namespace tributary::app {
namespace {

std::string share_cells(double part, double whole) {
  return str("<td class=\"number\">", show_count(part), "</td><td class=\"number\">",
             whole > 0 ? show_percent(part / whole) : "–", "</td>");
}

std::string drawn_table(const DrawnSources& drawn) {
  SourceTotals all;
  for (const SourceTotals& each : drawn.sources) {
    all.samples += each.samples;
    all.tokens += each.tokens;
    all.target_tokens += each.target_tokens;
  }
  const auto row = [&](const std::string& name, const MaybeNumber& asked,
                       const SourceTotals& each) {
    return str("<tr><td class=\"name\">", html(name), "</td><td class=\"number\">",
               asked ? show_percent(*asked) : "–", "</td>", share_cells(each.samples, all.samples),
               share_cells(each.tokens, all.tokens),
               share_cells(each.target_tokens, all.target_tokens), "</tr>\n");
  };
  std::string rows;
  for (const SourceTotals& each : drawn.sources) rows += row(each.name, each.asked, each);
  return str(
      "<div class=\"card scroll wide\"><table id=\"drawn\"><tr><th>source</th>"
      "<th class=\"number\">asked, of ",
      drawn.unit(),
      "</th><th class=\"number\">samples</th><th class=\"number\">share</th>"
      "<th class=\"number\">tokens</th><th class=\"number\">share</th>"
      "<th class=\"number\">target tokens</th><th class=\"number\">share</th></tr>\n",
      rows, row("all", std::nullopt, all), "</table></div>\n");
}

}  // namespace

std::string data_section(const DrawnSources& drawn) {
  std::string text =
      "<section id=\"data\"><h2>Data</h2>\n<p class=\"about\">What the steps drew from each "
      "source, beside the share that its weight asks for. The loss counts target tokens, so their "
      "share says how much a source teaches.</p>\n";
  if (drawn.sources.empty())
    return text +
           "<p class=\"missing\"><code>metrics.jsonl</code> does not say what was drawn from each "
           "source.</p></section>\n";
  return str(text, "<div class=\"grid\">\n", drawn_table(drawn),
             chart_card("drawn", "Share of each source so far", "of " + drawn.unit(),
                        /*wide=*/false, "Dashed: the share that was asked for."),
             chart_card("targets", "Target tokens by source", "of one step"), "</div></section>\n");
}

}  // namespace tributary::app
