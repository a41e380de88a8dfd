#include "app/report/compare_page.h"

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <limits>

#include "app/report/html.h"
#include "app/report/measured_section.h"
#include "app/report/page_frame.h"
#include "app/report/run_rows.h"
#include "core/text.h"
#include "studies/compare/write_comparison.h"

namespace tributary::app {
namespace {

using config::FigureQuantity;
using studies::Comparison;
using studies::FigureResult;
using studies::MethodResult;
using studies::SettingResult;

constexpr double kTolerance = 0.15;

std::string cell(const std::string& text, const char* kind = "") {
  return str("<td", *kind == '\0' ? "" : str(" class=\"", kind, "\""), ">", text, "</td>");
}

std::string pill(bool is_good, const std::string& text) {
  return str("<span class=\"pill ", is_good ? "good" : "bad", "\">", html(text), "</span>");
}

std::string name_of_method(const config::RankedMethod& ranked) {
  return ranked.against.empty() ? ranked.method : str(ranked.method, " / ", ranked.against);
}

/// The value that ranks a method, in the form of its quantity.
std::string show_rank(config::RankedBy by, double value) {
  switch (by) {
    case config::RankedBy::kStep:
      return show_time(value);
    case config::RankedBy::kMfu:
    case config::RankedBy::kOccupancy:
      return show_figure(FigureQuantity::kMfu, value);
    case config::RankedBy::kSpeedup:
      break;
  }
  return show_figure(FigureQuantity::kSpeedup, value);
}

/// The measured value in a cell; empty where nothing of the comparison ran.
std::string measured_cell(const FigureResult& result, bool runs) {
  if (!runs) return "";
  return cell(result.measured ? html(show_figure(result.figure, *result.measured)) : "–", "number");
}

std::string figure_row(const FigureResult& result, bool runs) {
  const config::PublishedFigure& figure = result.figure;
  std::string row = str("<tr>", cell(html(figure.where)), cell(html(describe_figure(figure))),
                        cell(html(show_published(figure)), "number"));
  if (!result.found)
    return str(row, cell("no value", "number"), cell("–", "number"), measured_cell(result, runs),
               "</tr>\n");
  return str(
      row, cell(html(show_figure(figure, *result.found)), "number"),
      cell(pill(studies::is_kept(result, kTolerance), show_percent(result.deviation)), "number"),
      measured_cell(result, runs), "</tr>\n");
}

std::string figure_section(const Comparison& comparison) {
  if (comparison.figures.empty() && comparison.orders.empty()) return "";
  const studies::FigureCount count = studies::count_within(comparison, kTolerance);
  const bool runs = has_run(comparison);
  std::string text = "<section id=\"published\"><h2>Published and found</h2>\n";
  if (count.all > 0) {
    text += str("<p class=\"about\">", count.within, " of ", count.all,
                " published figures are found: within ", show_percent(kTolerance),
                ", of a range inside.</p>\n<div class=\"card "
                "scroll\"><table><tr><th>Where</th><th>Figure</th>"
                "<th>Published</th><th>",
                runs ? "Simulated" : "Found", "</th><th>Deviation</th>",
                runs ? "<th>Measured</th>" : "", "</tr>\n");
    for (const FigureResult& figure : comparison.figures) text += figure_row(figure, runs);
    text += "</table></div>\n";
  }
  if (!comparison.orders.empty()) {
    text +=
        "<h3>Orders, the fastest first</h3>\n<div class=\"card scroll\"><table><tr><th>Where</th>"
        "<th>Of</th><th>Order</th><th>Holds</th>";
    text += runs ? "<th>Holds as measured</th></tr>\n" : "</tr>\n";
    for (const studies::OrderResult& order : comparison.orders)
      text += str("<tr>", cell(html(order.order.where)), cell(html(subject_of(order))),
                  cell(html(show_order(order, " · "))),
                  cell(pill(order.holds, order.is_tie  ? "tie"
                                         : order.holds ? "yes"
                                                       : "no")),
                  runs ? cell(pill(order.measured_holds, order.measured_holds ? "yes" : "no")) : "",
                  "</tr>\n");
    text += "</table></div>\n";
  }
  return text + "</section>\n";
}

std::string bars(const SettingResult& setting) {
  double longest = 0;
  for (const MethodResult& method : setting.methods) longest = std::max(longest, method.step_s);
  std::string rows;
  for (const MethodResult& method : fastest_first(setting)) {
    const double width = longest > 0 ? 100 * method.step_s / longest : 0;
    rows +=
        str("<div class=\"bar-row\"><div class=\"name\">", breakable(method.method),
            "</div><div class=\"track\"><div class=\"bar\"><i style=\"width:", show_number(width),
            "%\"></i></div></div><div class=\"value\">",
            method.step_s > 0 ? html(show_time(method.step_s)) : "no plan", "</div></div>\n");
  }
  return str("<div class=\"bars\">\n", rows, "</div>\n");
}

std::string setting_table(const SettingResult& setting, const std::string& against) {
  const MethodResult* base = setting.find(against);
  const TimeColumn time = time_column(setting);
  std::string text =
      str("<div class=\"scroll\"><table><tr><th>Method</th><th>Step</th>",
          base != nullptr ? str("<th>Against ", html(against), "</th>") : "", "<th>MFU</th><th>",
          time.name, "</th><th>Gap to bound</th><th>Evaluations</th><th>Plan</th></tr>\n");
  for (const MethodResult& method : fastest_first(setting)) {
    const bool has_plan = method.step_s > 0;
    text += str("<tr>", cell(html(method.method), "name"),
                cell(has_plan ? html(show_time(method.step_s)) : "–", "number"));
    if (base != nullptr)
      text += cell(has_plan && base->step_s > 0
                       ? html(show_figure(FigureQuantity::kSpeedup, base->step_s / method.step_s))
                       : "–",
                   "number");
    text += str(cell(has_plan ? show_percent(method.mfu) : "–", "number"),
                cell(method.*time.share ? show_percent(*(method.*time.share)) : "–", "number"),
                cell(has_plan ? show_percent(method.certificate.gap()) : "–", "number"),
                cell(show_count(static_cast<double>(method.certificate.evaluations)), "number"),
                cell(html(has_plan ? method.plan : method.certificate.limit)), "</tr>\n");
  }
  return text + "</table></div>\n";
}

std::string id_of_setting(std::size_t index) { return str("setting-", index); }

std::vector<PageLink> links_of(const Comparison& comparison) {
  constexpr std::size_t kMaxLinks = 6;
  std::vector<PageLink> links;
  if (!comparison.figures.empty() || !comparison.orders.empty())
    links.push_back({"published", "Published and found"});
  for (std::size_t i = 0; i < std::min(kMaxLinks, comparison.settings.size()); ++i)
    links.push_back({id_of_setting(i), comparison.settings[i].name});
  return links;
}

std::string setting_section(const Comparison& comparison, const SettingResult& setting,
                            const std::string& id) {
  const std::string& against = comparison.against;
  std::string note = studies::note_on_search(setting);
  if (!note.empty()) note = str("<p class=\"about\">Note: ", html(note), "</p>\n");
  return str("<section id=\"", id, "\"><h2>", html(setting.name), "</h2>\n<p class=\"about\">",
             html(setting.model), " on ", setting.devices, " devices of ", html(setting.cluster),
             ", ", setting.global_samples, " samples a step of ",
             show_number(setting.tokens_per_sample), " tokens on average.</p>\n",
             setting.run ? measured_card(comparison, setting)
                         : str("<div class=\"card\">\n", bars(setting),
                               setting_table(setting, against), note, "</div>"),
             "</section>\n");
}

}  // namespace

std::string show_figure(FigureQuantity quantity, double value) {
  switch (quantity) {
    case FigureQuantity::kSpeedup:
      return str(std::fixed, std::setprecision(3), value, "x");
    case FigureQuantity::kHours:
      return str(std::fixed, std::setprecision(2), value, " h");
    case FigureQuantity::kMfuGap:
      return str(std::fixed, std::setprecision(1), 100 * value, " points");
    case FigureQuantity::kMfu:
    case FigureQuantity::kIdleReduction:
    case FigureQuantity::kBubbleReduction:
    case FigureQuantity::kOccupancy:
    case FigureQuantity::kMinOccupancy:
      break;
  }
  return show_percent(value);
}

std::string show_figure(const config::PublishedFigure& figure, double value) {
  const bool is_ratio = figure.is_of_occupancy() && figure.is_set_against();
  return show_figure(is_ratio ? FigureQuantity::kSpeedup : figure.quantity, value);
}

std::vector<MethodResult> fastest_first(const SettingResult& setting) {
  std::vector<MethodResult> methods = setting.methods;
  std::ranges::stable_sort(methods, {}, [](const MethodResult& method) {
    return method.step_s > 0 ? method.step_s : std::numeric_limits<double>::infinity();
  });
  return methods;
}

TimeColumn time_column(const SettingResult& setting) {
  const bool is_counted = std::ranges::any_of(
      setting.methods, [](const MethodResult& method) { return method.occupancy.has_value(); });
  return is_counted ? TimeColumn{"Occupancy", &MethodResult::occupancy}
                    : TimeColumn{"Idle", &MethodResult::idle_share};
}

std::string show_published(const config::PublishedFigure& figure) {
  const std::string min = show_figure(figure, figure.min);
  if (figure.min == figure.max) return min;
  return str(min, " to ", show_figure(figure, figure.max));
}

std::string describe_figure(const config::PublishedFigure& figure) {
  std::string text = str(studies::name_of(figure.quantity), " of ", figure.method);
  if (!figure.against.empty()) text += str(" against ", figure.against);
  if (figure.settings.empty()) text += str(", ", figure.setting);
  for (std::size_t i = 0; i < figure.settings.size(); ++i)
    text += str(i == 0 ? ", mean of " : ", ", figure.settings[i]);
  if (!figure.against_setting.empty()) text += str(" against ", figure.against_setting);
  return text;
}

std::string subject_of(const studies::OrderResult& result) {
  const config::RankedMethod& first = result.order.ranked.front();
  return result.order.is_of_one_setting() ? first.setting : name_of_method(first);
}

std::string breakable(const std::string& name) {
  std::string text;
  for (const char letter : html(name)) text += letter == '_' ? "_<wbr>" : std::string(1, letter);
  return text;
}

std::string show_order(const studies::OrderResult& result, const char* between) {
  std::string text;
  for (std::size_t i = 0; i < result.values.size(); ++i) {
    const config::RankedMethod& each = result.order.ranked[i];
    text += str(i == 0 ? "" : between,
                result.order.is_of_one_setting() ? name_of_method(each) : each.setting, " ",
                result.values[i] > 0 ? show_rank(result.order.by, result.values[i]) : "no plan");
  }
  return text;
}

std::string write_compare_page(const Comparison& comparison) {
  std::string page =
      str(open_page(comparison.name, links_of(comparison)),
          "<header id=\"top\"><p class=\"eyebrow\">study</p><h1>", html(comparison.name),
          "</h1><p class=\"lead\">", html(comparison.source), "</p></header>\n");
  if (!comparison.notes.empty())
    page += str("<section><p class=\"about\">", html(comparison.notes), "</p></section>\n");
  page += figure_section(comparison);
  for (std::size_t i = 0; i < comparison.settings.size(); ++i)
    page += setting_section(comparison, comparison.settings[i], id_of_setting(i));
  return page + close_page(
                    "Written by <code>tributary compare</code>. Every method has the best plan of "
                    "its own space, over the same costs, batches and memory; notes say where a row "
                    "is judged otherwise.");
}

}  // namespace tributary::app
