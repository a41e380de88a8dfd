#include <algorithm>
#include <nlohmann/json.hpp>

#include "config/trace/trace.h"

namespace tributary::config {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr const char* kStreamNames[] = {"compute", "messages", "reduction"};

template <class Pairs>
OrderedJson named(const Pairs& pairs) {
  OrderedJson json = OrderedJson::object();
  for (const auto& [name, value] : pairs) json[name] = value.count;
  return json;
}

/// Perfetto counts in microseconds; three decimals keep the nanoseconds.
double microseconds(Nanoseconds time) { return static_cast<double>(time.count) / 1e3; }

OrderedJson lane_json(const TraceLane& lane, bool with_memory) {
  OrderedJson memory = OrderedJson::array();
  for (const auto& [time, bytes] : lane.memory) memory.push_back({time.count, bytes.count});
  OrderedJson json{{"name", lane.name},
                   {"module", lane.module},
                   {"ranks", lane.ranks},
                   {"busy_ns", lane.busy.count},
                   {"communication_ns", lane.communication.count},
                   {"idle_ns", lane.idle.count},
                   {"uses_ns", named(lane.uses)},
                   {"peak_bytes", lane.peak.count},
                   {"peak_parts", named(lane.peak_parts)},
                   {"memory", memory}};
  if (!with_memory)
    for (const char* key : {"peak_bytes", "peak_parts", "memory"}) json.erase(key);
  return json;
}

/// The ranks of each module, and their summed times by class.
OrderedJson module_json(const std::vector<TraceLane>& lanes, bool with_memory) {
  OrderedJson modules = OrderedJson::object();
  for (const TraceLane& lane : lanes) {
    OrderedJson& of = modules[lane.module];
    if (of.is_null())
      of = {{"ranks", 0},
            {"busy_rank_ns", 0.0},
            {"communication_rank_ns", 0.0},
            {"idle_rank_ns", 0.0},
            {"peak_bytes", 0}};
    const auto add = [&](const char* key, Nanoseconds time) {
      of[key] =
          of[key].get<double>() + static_cast<double>(time.count) * static_cast<double>(lane.ranks);
    };
    of["ranks"] = of["ranks"].get<std::int64_t>() + lane.ranks;
    add("busy_rank_ns", lane.busy);
    add("communication_rank_ns", lane.communication);
    add("idle_rank_ns", lane.idle);
    of["peak_bytes"] = std::max(of["peak_bytes"].get<std::int64_t>(), lane.peak.count);
  }
  if (!with_memory)
    for (OrderedJson& module : modules) module.erase("peak_bytes");
  return modules;
}

OrderedJson summary_json(const Trace& trace, bool with_lanes) {
  const TraceSummary& summary = trace.summary;
  OrderedJson json{{"source", summary.source},
                   {"plan", summary.plan},
                   {"plan_digest", summary.plan_digest},
                   {"cluster", summary.cluster},
                   {"steps", summary.steps},
                   {"step_ns", summary.step.count},
                   {"planned_step_ns", summary.planned_step.count},
                   {"samples", summary.samples},
                   {"distribution_ns", named(summary.distribution)},
                   {"lower_bound_ns", summary.lower_bound.count},
                   {"ranks", summary.ranks},
                   {"idle_share", summary.idle_share},
                   {"mfu", summary.mfu},
                   {"mfu_formula", summary.mfu_formula},
                   {"utilisation", summary.utilisation},
                   {"critical_path_ns", named(summary.critical_path)},
                   {"out_of_memory", summary.out_of_memory},
                   {"outside_grid", !summary.beyond_grid.empty()},
                   {"beyond_grid", summary.beyond_grid},
                   {"unsettled", summary.unsettled},
                   {"failures", summary.failures},
                   {"goodput", summary.goodput},
                   {"unknown", summary.unknown},
                   {"modules", module_json(trace.lanes, summary.knows("memory"))}};
  if (summary.plan_digest.empty()) json.erase("plan_digest");
  if (!summary.knows("mfu"))
    for (const char* key : {"mfu", "mfu_formula", "utilisation"}) json.erase(key);
  if (!summary.knows("memory")) json.erase("out_of_memory");
  if (!with_lanes) return json;
  json["lanes"] = OrderedJson::array();
  for (const TraceLane& lane : trace.lanes)
    json["lanes"].push_back(lane_json(lane, summary.knows("memory")));
  return json;
}

void add_names(const Trace& trace, OrderedJson& events) {
  const std::int64_t shown = trace.spans.empty() ? 0 : trace.spans.back().lane + 1;
  for (std::int64_t lane = 0; lane < shown; ++lane) {
    events.push_back({{"name", "process_name"},
                      {"ph", "M"},
                      {"pid", lane},
                      {"args", {{"name", trace.lanes[lane].name}}}});
    for (int stream = 0; stream < 3; ++stream)
      events.push_back({{"name", "thread_name"},
                        {"ph", "M"},
                        {"pid", lane},
                        {"tid", stream},
                        {"args", {{"name", kStreamNames[stream]}}}});
    for (const auto& [time, bytes] : trace.lanes[lane].memory)
      events.push_back({{"name", "bytes"},
                        {"ph", "C"},
                        {"pid", lane},
                        {"ts", microseconds(time)},
                        {"args", {{"bytes", bytes.count}}}});
  }
}

}  // namespace

Nanoseconds TraceSummary::shown_step() const {
  const auto median = distribution.find("median");
  return median == distribution.end() ? step : median->second;
}

bool TraceSummary::knows(std::string_view figure) const {
  return std::find(unknown.begin(), unknown.end(), figure) == unknown.end();
}

std::string write_trace(const Trace& trace) {
  OrderedJson events = OrderedJson::array();
  add_names(trace, events);
  for (const TraceSpan& span : trace.spans)
    events.push_back({{"name", span.name},
                      {"cat", span.kind},
                      {"ph", "X"},
                      {"ts", microseconds(span.start)},
                      {"dur", microseconds(span.duration)},
                      {"pid", span.lane},
                      {"tid", static_cast<int>(span.stream)},
                      {"args", {{"critical", span.critical}}}});
  return OrderedJson{{"format", kTraceFormat},
                     {"displayTimeUnit", "ns"},
                     {"summary", summary_json(trace, true)},
                     {"traceEvents", std::move(events)}}
             .dump() +
         "\n";
}

std::string write_summary(const Trace& trace) { return summary_json(trace, false).dump(2) + "\n"; }

}  // namespace tributary::config
