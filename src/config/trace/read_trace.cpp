#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "config/reading/artifact_object.h"
#include "config/reading/yaml_json.h"
#include "config/trace/trace.h"

namespace tributary::config {
namespace {

constexpr WholeRange kAmount{0, std::int64_t{1} << 62};
constexpr JsonLimits kLimits{.max_bytes = std::size_t{1} << 30, .max_depth = 16};

/// Reads amounts by name; the writer chooses the names.
template <class Unit>
std::map<std::string, Quantity<Unit>> read_named(ArtifactObject& parent, const std::string& key) {
  std::map<std::string, Quantity<Unit>> named;
  const Json* pairs = parent.find(key);
  if (pairs == nullptr) return named;
  ArtifactObject object = parent.object(key, false);
  if (!pairs->is_object()) return named;
  for (const auto& [name, value] : pairs->items())
    named.emplace(name, Quantity<Unit>{object.whole(name, std::nullopt, kAmount)});
  return named;
}

NamedShares read_shares(ArtifactObject& parent, const std::string& key) {
  NamedShares named;
  const Json* pairs = parent.find(key);
  if (pairs == nullptr) return named;
  ArtifactObject object = parent.object(key, false);
  if (!pairs->is_object()) return named;
  for (const auto& [name, value] : pairs->items())
    named.emplace(name, object.number(name, std::nullopt, 0, 1e6));
  return named;
}

void read_memory(ArtifactObject& json, TraceLane& lane) {
  const Json* list = json.find("memory");
  if (list == nullptr) return;
  const auto is_amount = [](const Json& value) {
    return value.is_number_integer() && value.get<std::int64_t>() >= 0;
  };
  const bool fits =
      list->is_array() && std::all_of(list->begin(), list->end(), [&](const Json& at) {
        return at.is_array() && at.size() == 2 && is_amount(at[0]) && is_amount(at[1]);
      });
  if (!fits) return json.refuse("memory", "pairs of nanoseconds and bytes: [[0, 1024], ...]");
  for (const Json& at : *list)
    lane.memory.push_back({{at[0].get<std::int64_t>()}, {at[1].get<std::int64_t>()}});
}

TraceLane read_lane(ArtifactObject json) {
  TraceLane lane;
  lane.name = json.text("name", std::nullopt);
  lane.module = json.text("module", std::nullopt);
  lane.ranks = json.whole("ranks", 1, {1, 1 << 20});
  lane.busy = {json.whole("busy_ns", std::nullopt, kAmount)};
  lane.communication = {json.whole("communication_ns", std::nullopt, kAmount)};
  lane.idle = {json.whole("idle_ns", std::nullopt, kAmount)};
  lane.uses = read_named<NanosecondUnit>(json, "uses_ns");
  lane.peak = {json.whole("peak_bytes", 0, kAmount)};
  lane.peak_parts = read_named<ByteUnit>(json, "peak_parts");
  read_memory(json, lane);
  json.refuse_unknown();
  return lane;
}

void read_unknown(ArtifactObject& json, TraceSummary& summary) {
  const Json* list = json.find("unknown");
  if (list == nullptr) return;
  const auto is_known = [](const Json& name) {
    return name.is_string() && std::find(kTraceUnknowns.begin(), kTraceUnknowns.end(),
                                         name.get<std::string>()) != kTraceUnknowns.end();
  };
  if (!list->is_array() || !std::all_of(list->begin(), list->end(), is_known))
    return json.refuse("unknown", "a list of memory, mfu");
  for (const Json& name : *list) summary.unknown.push_back(name.get<std::string>());
}

BeyondGrid read_beyond(ArtifactObject json) {
  BeyondGrid beyond;
  beyond.table = json.text("table", std::nullopt);
  beyond.unit = json.text("unit", std::nullopt);
  beyond.measured = json.whole("measured", std::nullopt, kAmount);
  beyond.asked = json.whole("asked", std::nullopt, kAmount);
  json.refuse_unknown();
  return beyond;
}

TraceSummary read_summary(ArtifactObject& json, std::vector<TraceLane>& lanes) {
  TraceSummary summary;
  summary.source = json.text("source", std::nullopt);
  summary.plan = json.text("plan", "");
  summary.plan_digest = json.text("plan_digest", "");
  summary.cluster = json.text("cluster", "");
  summary.steps = json.whole("steps", 1, {1, 1'000'000});
  summary.step = {json.whole("step_ns", std::nullopt, kAmount)};
  summary.planned_step = {json.whole("planned_step_ns", 0, kAmount)};
  summary.samples = json.text("samples", "");
  summary.distribution = read_named<NanosecondUnit>(json, "distribution_ns");
  summary.lower_bound = {json.whole("lower_bound_ns", 0, kAmount)};
  summary.ranks = json.whole("ranks", 0, {0, 1 << 20});
  summary.idle_share = json.number("idle_share", 0, 0, 1);
  summary.mfu = json.number("mfu", 0, 0, 1e6);
  summary.mfu_formula = json.text("mfu_formula", "");
  summary.utilisation = read_shares(json, "utilisation");
  summary.critical_path = read_named<NanosecondUnit>(json, "critical_path_ns");
  summary.out_of_memory = json.text("out_of_memory", "");
  if (json.has("beyond_grid"))
    for (ArtifactObject& each : json.items("beyond_grid"))
      summary.beyond_grid.push_back(read_beyond(std::move(each)));
  const bool is_outside = !summary.beyond_grid.empty();
  if (json.flag("outside_grid", is_outside) != is_outside)
    json.refuse("outside_grid", "true where beyond_grid names tables, and there alone");
  summary.unsettled = json.flag("unsettled", false);
  summary.failures = json.whole("failures", 0, kAmount);
  summary.goodput = json.number("goodput", 1, 0, 1);
  read_unknown(json, summary);
  (void)json.find("modules");  // sums over the lanes
  for (ArtifactObject& lane : json.items("lanes")) lanes.push_back(read_lane(std::move(lane)));
  json.refuse_unknown();
  return summary;
}

/// A span in whole nanoseconds; other events of the Chrome format are for its viewers.
std::optional<TraceSpan> read_span(ArtifactObject& json, std::int64_t lanes) {
  if (json.text("ph", std::nullopt) != "X") return std::nullopt;
  TraceSpan span;
  span.name = json.text("name", std::nullopt);
  span.kind = json.text("cat", "");
  span.lane = json.whole("pid", std::nullopt, {0, lanes - 1});
  span.stream = static_cast<TraceStream>(json.whole("tid", 0, {0, 2}));
  span.start = {std::llround(1e3 * json.number("ts", 0, 0, 1e15))};
  span.duration = {std::llround(1e3 * json.number("dur", 0, 0, 1e15))};
  ArtifactObject arguments = json.object("args", false);
  span.critical = arguments.flag("critical", false);
  return span;
}

}  // namespace

Trace parse_trace(std::string_view text, const std::string& where) {
  const Json json = parse_json(text, where, kLimits);
  Problems problems;
  ArtifactObject root(json, where, "", problems);
  const std::string format = root.text("format", std::nullopt);
  if (format != kTraceFormat)
    TRIB_RAISE(Fault::kInput, .what = "config: not a trace of this version",
               .where = root.where("format"), .found = escaped(format),
               .expected = std::string(kTraceFormat));
  Trace trace;
  ArtifactObject summary = root.object("summary", true);
  trace.summary = read_summary(summary, trace.lanes);
  for (ArtifactObject& event : root.items("traceEvents"))
    if (auto span = read_span(event, std::ssize(trace.lanes)))
      trace.spans.push_back(*std::move(span));
  (void)root.find("displayTimeUnit");
  root.refuse_unknown();
  problems.raise_if_any(where);
  return trace;
}

Trace read_trace(const std::string& path) {
  return parse_trace(read_artifact(path, "a trace, docs/formats/trace.md"), path);
}

}  // namespace tributary::config
