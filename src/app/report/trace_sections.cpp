#include "app/report/trace_sections.h"

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <map>
#include <set>

#include "app/report/html.h"
#include "core/text.h"
#include "cost/watched_costs.h"
#include "simulate/engine/lane_account.h"

namespace tributary::app {
namespace {

using config::Trace;
using config::TraceLane;
using config::TraceSpan;
using config::TraceStream;

constexpr std::size_t kMaxLanes = 16;
constexpr std::size_t kColors = 8;
constexpr std::size_t kMaxSpans = 1500;  // of a lane
constexpr double kWidth = 1000;
constexpr double kRow = 16;
constexpr double kLabel = 210;
constexpr double kAxis = 20;  // height of the times along the bottom

std::string duration(double seconds) {
  if (seconds >= 10) return show_duration(seconds);
  if (seconds >= 1) return str(std::setprecision(4), seconds, " s");
  if (seconds >= 1e-3) return str(std::setprecision(4), 1e3 * seconds, " ms");
  return str(std::setprecision(4), 1e6 * seconds, " us");
}
std::string seconds(Nanoseconds time) { return duration(seconds_of(time)); }

std::string summary_figure(const std::string& name, const std::string& value,
                           const std::string& note) {
  return str("<div class=\"summary_figure\"><dt>", html(name), "</dt><dd>", html(value), "</dd>",
             note.empty() ? "" : str("<p class=\"note\">", html(note), "</p>"), "</div>\n");
}

std::string number(double value) { return str(std::fixed, std::setprecision(2), value); }

std::string rectangle(double x, double y, double width, double height, const std::string& kind,
                      const std::string& title) {
  return str("<rect class=\"k-", html(kind), "\" x=\"", number(x), "\" y=\"", number(y),
             "\" width=\"", number(std::max(0.3, width)), "\" height=\"", number(height),
             "\"><title>", html(title), "</title></rect>\n");
}

std::string label(double y, const std::string& text) {
  return str("<text x=\"0\" y=\"", number(y), "\">", html(text), "</text>\n");
}

std::string open_svg(double height, const std::string& name) {
  return str("<svg class=\"trace\" viewBox=\"0 0 ", number(kLabel + kWidth), " ", number(height),
             "\" role=\"img\" aria-label=\"", html(name), "\">\n");
}

/// Four to eight round times from 0 to the end of an axis.
std::vector<double> time_ticks(double end) {
  const double rough = end / 8;
  const double power = std::pow(10, std::floor(std::log10(rough)));
  double step = 10 * power;
  for (const double factor : {1.0, 2.0, 5.0})
    if (factor * power >= rough * 0.999) {
      step = factor * power;
      break;
    }
  std::vector<double> ticks;
  for (int i = 0; i * step <= end * 1.0001; ++i) ticks.push_back(i * step);
  return ticks;
}

/// Draws the times along the bottom and a vertical line for each.
std::string draw_time_axis(Nanoseconds axis, double bottom) {
  const double end = seconds_of(axis);
  std::string text;
  for (const double tick : time_ticks(end)) {
    const std::string x = number(kLabel + kWidth * tick / end);
    text += str("<line class=\"gridline\" x1=\"", x, "\" x2=\"", x, "\" y1=\"0\" y2=\"",
                number(bottom), "\"/><text class=\"tick\" x=\"", x, "\" y=\"", number(bottom + 14),
                "\">", html(tick == 0 ? "0" : duration(tick)), "</text>\n");
  }
  return text;
}

Nanoseconds axis_of(const Trace& predicted, const Trace* measured) {
  return std::max({predicted.summary.shown_step(),
                   measured ? measured->summary.shown_step() : Nanoseconds{}, Nanoseconds{1}});
}

/// Chooses the lanes to draw: the first ones of every module, so that every module is shown.
std::vector<std::size_t> lanes_to_draw(const Trace& trace, std::size_t max = kMaxLanes) {
  std::map<std::string, std::size_t> seen;  // number of lanes of each module so far
  std::vector<std::pair<std::size_t, std::size_t>> by_turn;
  for (std::size_t lane = 0; lane < trace.lanes.size(); ++lane)
    by_turn.emplace_back(seen[trace.lanes[lane].module]++, lane);
  std::sort(by_turn.begin(), by_turn.end());
  std::vector<std::size_t> lanes;
  for (std::size_t i = 0; i < std::min(max, by_turn.size()); ++i)
    lanes.push_back(by_turn[i].second);
  std::sort(lanes.begin(), lanes.end());
  return lanes;
}

std::string count_left_out(const Trace& trace, std::size_t drawn) {
  if (drawn >= trace.lanes.size()) return "";
  return str("<p class=\"note\">", drawn, " of ", trace.lanes.size(),
             " stages and replicas, some of each module; the trace holds them all.</p>\n");
}

/// Draws the computation of one lane; where there are too many spans, short ones are left out.
std::string draw_lane(const Trace& trace, std::size_t lane, double y, Nanoseconds axis) {
  std::vector<const TraceSpan*> spans;
  for (const TraceSpan& span : trace.spans)
    if (span.lane == std::int64_t(lane) && span.stream != TraceStream::kMessages)
      spans.push_back(&span);
  if (spans.size() > kMaxSpans) {
    std::nth_element(
        spans.begin(), spans.begin() + kMaxSpans, spans.end(),
        [](const TraceSpan* a, const TraceSpan* b) { return a->duration > b->duration; });
    spans.resize(kMaxSpans);
  }
  std::string text;
  const double scale = kWidth / double(axis.count);
  for (const TraceSpan* span : spans) {
    const bool reduces = span->stream == TraceStream::kReduction;
    text += rectangle(kLabel + scale * double(span->start.count), reduces ? y + kRow - 6 : y,
                      scale * double(span->duration.count), reduces ? 3 : kRow - 4,
                      span->critical ? span->kind + " critical" : span->kind,
                      str(span->name, ", ", seconds(span->start), " + ", seconds(span->duration)));
  }
  return text;
}

std::string timeline(const Trace& predicted, const Trace* measured) {
  const std::vector<std::size_t> lanes = lanes_to_draw(predicted);
  const double rows = measured ? 2.3 : 1.2;
  const double bottom = rows * kRow * double(lanes.size()) + 4;
  std::string text = open_svg(bottom + kAxis, "timeline");
  const Nanoseconds axis = axis_of(predicted, measured);
  text += draw_time_axis(axis, bottom);
  double y = 2;
  for (const std::size_t lane : lanes) {
    text += label(y + 10, predicted.lanes[lane].name);
    text += draw_lane(predicted, lane, y, axis);
    if (measured) {
      const auto same =
          std::ranges::find(measured->lanes, predicted.lanes[lane].name, &TraceLane::name);
      if (same != measured->lanes.end())
        text += label(y + kRow + 10, "  measured") +
                draw_lane(*measured, std::size_t(same - measured->lanes.begin()), y + kRow, axis);
    }
    y += rows * kRow;
  }
  std::set<std::string> kinds;
  for (const TraceSpan& span : predicted.spans)
    if (span.stream != TraceStream::kMessages) kinds.insert(span.kind);
  std::string key;
  for (const std::string& kind : kinds)
    key += str("<span><i class=\"k-", html(kind), "\"></i>", html(kind), "</span>");
  return str(
      "<section id=\"timeline\"><h2>Timeline</h2>\n<p class=\"about\">One step of ",
      html(seconds(predicted.summary.shown_step())),
      ", a line for each stage; what makes the step as long as it is has a frame. Point at a "
      "pass to read it.</p>\n<div class=\"card scroll\">",
      text, "</svg><p class=\"key\">", key, "</p>", count_left_out(predicted, lanes.size()),
      "</div></section>\n");
}

std::string use_bars(const Trace& trace) {
  const std::vector<std::size_t> lanes = lanes_to_draw(trace);
  std::string text = open_svg(1.2 * kRow * double(lanes.size()) + 4, "use of time");
  double y = 2;
  for (const std::size_t lane : lanes) {
    text += label(y + 10, trace.lanes[lane].name);
    double x = kLabel;
    // In the order of the classes: busy, communication, idle.
    for (std::size_t i = 0; i < simulate::kTimeUses; ++i) {
      const std::string use(simulate::name_of(static_cast<simulate::TimeUse>(i)));
      const auto found = trace.lanes[lane].uses.find(use);
      if (found == trace.lanes[lane].uses.end()) continue;
      const Nanoseconds time = found->second;
      const double width = kWidth * double(time.count) /
                           double(std::max<std::int64_t>(1, trace.summary.shown_step().count));
      text += rectangle(x, y, width, kRow - 4, use, str(use, ' ', seconds(time)));
      x += width;
    }
    y += 1.2 * kRow;
  }
  return text + "</svg>";
}

std::string use_table(const Trace& trace) {
  std::string text =
      "<table><tr><th>stage</th><th>ranks</th><th>busy</th><th>communication</th><th>idle</th>"
      "<th>by cause</th></tr>\n";
  for (const std::size_t i : lanes_to_draw(trace)) {
    const TraceLane& lane = trace.lanes[i];
    const auto share = [&](Nanoseconds time) {
      return show_percent(double(time.count) /
                          double(std::max<std::int64_t>(1, trace.summary.shown_step().count)));
    };
    std::string causes;
    for (const auto& [use, time] : lane.uses)
      causes += str(causes.empty() ? "" : ", ", use, ' ', seconds(time));
    text +=
        str("<tr><td class=\"name\">", html(lane.name), "</td><td class=\"number\">", lane.ranks,
            "</td><td class=\"number\">", share(lane.busy), "</td><td class=\"number\">",
            share(lane.communication), "</td><td class=\"number\">", share(lane.idle), "</td><td>",
            html(causes), "</td></tr>\n");
  }
  return text + "</table>";
}

std::string memory_chart(const Trace& trace) {
  Bytes max{1};
  for (const TraceLane& lane : trace.lanes) max = std::max(max, lane.peak);
  constexpr double kHeight = 220;
  std::string text = open_svg(kHeight + kAxis, "memory");
  const Nanoseconds step = std::max(trace.summary.shown_step(), Nanoseconds{1});
  text += draw_time_axis(step, kHeight);
  const double x_scale = kWidth / double(step.count);
  const double y_scale = (kHeight - 10) / double(max.count);
  for (const double share : {0.0, 0.5, 1.0}) {
    const double y = kHeight - share * (kHeight - 10);
    text += str("<line class=\"gridline\" x1=\"", number(kLabel), "\" x2=\"",
                number(kLabel + kWidth), "\" y1=\"", number(y), "\" y2=\"", number(y), "\"/>",
                label(y + 4, share == 0 ? "0" : show_bytes(share * double(max.count))));
  }
  std::size_t color = 0;
  std::string key;
  for (const std::size_t lane : lanes_to_draw(trace, kColors)) {
    std::string points;
    double before = -1;
    for (const auto& [time, bytes] : trace.lanes[lane].memory) {
      const double x = kLabel + x_scale * double(time.count);
      const double y = kHeight - y_scale * double(bytes.count);
      // The number of bytes changes in steps, so the curve has steps too.
      if (before >= 0) points += str(number(x), ",", number(before), " ");
      points += str(number(x), ",", number(y), " ");
      before = y;
    }
    const std::string name = html(trace.lanes[lane].name);
    text += str("<polyline style=\"stroke:var(--c", color, ")\" points=\"", points, "\"><title>",
                name, "</title></polyline>\n");
    key += str("<span><i style=\"background:var(--c", color, ")\"></i>", name, "</span>");
    ++color;
  }
  return str(text, "</svg><p class=\"key\">", key, "</p>");
}

std::string memory_table(const Trace& trace) {
  std::string text = "<table><tr><th>stage</th><th>peak</th><th>of which</th></tr>\n";
  for (const std::size_t i : lanes_to_draw(trace)) {
    const TraceLane& lane = trace.lanes[i];
    std::string parts;
    for (const auto& [part, bytes] : lane.peak_parts)
      if (bytes.count > 0)
        parts += str(parts.empty() ? "" : ", ", part, ' ', show_bytes(double(bytes.count)));
    text += str("<tr><td class=\"name\">", html(lane.name), "</td><td class=\"number\">",
                show_bytes(double(lane.peak.count)), "</td><td>", html(parts), "</td></tr>\n");
  }
  return text + "</table>";
}

std::string figures(const Trace& trace) {
  const config::TraceSummary& summary = trace.summary;
  std::string text = "<dl class=\"figures\">\n";
  text += summary_figure("Step", seconds(summary.step),
                         summary.steps > 1 ? str(summary.source, ", mean") : summary.source);
  if (summary.planned_step.count > 0)
    text += summary_figure("Planned step", seconds(summary.planned_step), "by the plan");
  text +=
      summary_figure("Lower bound", seconds(summary.lower_bound), "no order of passes is below");
  text += summary_figure("MFU", summary.knows("mfu") ? show_percent(summary.mfu) : "unknown",
                         str(summary.ranks, " ranks"));
  text += summary_figure("Idle", show_percent(summary.idle_share), "of all ranks' time");
  for (const auto& [name, time] : summary.distribution)
    if (summary.steps > 1 && (name == "percentile_95" || name == "max"))
      text += summary_figure(name == "max" ? "Longest step" : "95th percentile", seconds(time),
                             str(summary.steps, " steps"));
  if (summary.failures > 0)
    text += summary_figure(
        "Goodput", show_percent(summary.goodput),
        str(summary.failures, " failures", summary.goodput == 0 ? ", no progress" : ""));
  return text + "</dl>\n";
}

}  // namespace

std::string trace_sections(const Trace& predicted, const Trace* measured) {
  std::string text = figures(predicted);
  if (!predicted.summary.out_of_memory.empty())
    text +=
        str("<p class=\"missing\">The plan does not fit: ", html(predicted.summary.out_of_memory),
            "</p>\n");
  if (predicted.summary.unsettled)
    text +=
        "<p class=\"missing\">The encoders that run ahead had not settled when the first step "
        "began.</p>\n";
  if (!predicted.summary.beyond_grid.empty())
    text += str("<p class=\"missing\">Beyond what was measured, at the rate of the largest size: ",
                html(cost::describe(predicted.summary.beyond_grid)), "</p>\n");
  text += timeline(predicted, measured);
  text += str("<section id=\"idle\"><h2>Use of time</h2>\n<div class=\"card scroll\">",
              use_bars(predicted), use_table(predicted), "</div></section>\n");
  if (predicted.summary.knows("memory"))
    text += str("<section id=\"memory\"><h2>Memory</h2>\n<div class=\"card scroll\">",
                memory_chart(predicted), memory_table(predicted), "</div></section>\n");
  return text;
}

std::string prediction_table(const Trace& predicted, const MeasuredSteps& measured) {
  double peak = 0;
  for (const TraceLane& lane : predicted.lanes) peak = std::max(peak, double(lane.peak.count));
  const double step = seconds_of(predicted.summary.shown_step());
  const auto row = [](const std::string& name, const std::string& is, const std::string& was,
                      double ratio) {
    return str("<tr><td class=\"name\">", html(name), "</td><td>", html(was), "</td><td>", html(is),
               "</td><td>", number(ratio), "</td></tr>\n");
  };
  std::string text =
      str("<section id=\"prediction\"><h2>Measured over predicted</h2>\n<div class=\"card scroll\">"
          "<table><tr><th></th><th>predicted</th><th>measured</th><th>ratio</th></tr>\n",
          row(str("step, median of ", measured.steps), duration(measured.median_seconds),
              duration(step), step > 0 ? measured.median_seconds / step : 0));
  if (measured.peak_bytes > 0 && predicted.summary.knows("memory"))
    text += row("peak memory of a rank", show_bytes(measured.peak_bytes), show_bytes(peak),
                peak > 0 ? measured.peak_bytes / peak : 0);
  return text + "</table></div></section>\n";
}

}  // namespace tributary::app
