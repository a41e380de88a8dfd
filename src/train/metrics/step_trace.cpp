#include "train/metrics/step_trace.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/json.h"
#include "schedule/pipeline/plan_pipeline.h"

namespace tributary::train {
namespace {

using config::TraceLane;
using config::TraceSpan;
using schedule::Op;

Nanoseconds in_ns(double seconds) {
  return {std::max<std::int64_t>(0, std::llround(1e9 * seconds))};
}

/// The lane of this rank: stages of all modules follow each other along pp.
int lane_of(const schedule::PipelineMap& map, const mesh::Mesh& mesh) {
  int stage = static_cast<int>(mesh.at().pp);
  const auto& modules = map.pipeline().modules;
  for (const int module : map.flow()) {
    const int stages = modules[static_cast<std::size_t>(module)].stages;
    if (stage < stages)
      return map.lane_of(
          {.module = module, .replica = static_cast<int>(mesh.data_index()), .stage = stage});
    stage -= stages;
  }
  TRIB_RAISE(Fault::kBug, .what = "train: rank has no stage of the plan");
}

/// Where the time of the rank went in the step of all; what nothing else accounts for is `other`.
void account(const RankTimes& times, Nanoseconds step, TraceLane& lane) {
  double compute = 0, collective = 0, end = times.began;
  double wait_activation = 0, wait_gradient = 0;
  for (const PassTimes& pass : times.passes) {
    compute += pass.end - pass.start - pass.waited;
    collective += pass.waited;
    (pass.action.op == Op::kForward ? wait_activation : wait_gradient) += pass.start - pass.reached;
    end = pass.end;
  }
  lane.uses = {{"compute", in_ns(compute)},
               {"optimizer", in_ns(times.updated - times.prepared)},
               {"collective", in_ns(collective)},
               {"reduction", in_ns(times.reduced - end)},
               {"wait_activation", in_ns(wait_activation)},
               {"wait_gradient", in_ns(wait_gradient)}};
  lane.busy = lane.uses["compute"] + lane.uses["optimizer"];
  lane.communication = lane.uses["collective"] + lane.uses["reduction"];
  const Nanoseconds waits = lane.uses["wait_activation"] + lane.uses["wait_gradient"];
  const Nanoseconds told = lane.busy + lane.communication + waits;
  const Nanoseconds other = std::max(step - told, Nanoseconds{});
  lane.uses["other"] = other;
  lane.idle = waits + other;
}

/// What a rank tells: its lane, the account of it, and its spans.
Json describe(const RankTimes& times, Nanoseconds step, int lane) {
  TraceLane account_of;
  account(times, step, account_of);
  Json uses = Json::object();
  for (const auto& [use, time] : account_of.uses) uses[use] = time.count;
  Json spans = Json::array();
  const auto add = [&](const std::string& name, const std::string& kind, double start, double end) {
    spans.push_back({name, kind, in_ns(start - times.began).count, in_ns(end - start).count});
  };
  for (const PassTimes& pass : times.passes)
    add(to_text(pass.action), std::string(schedule::span_kind_of(pass.action.op)), pass.start,
        pass.end);
  add("OPT0.0", "optimizer", times.prepared, times.updated);
  return {{"lane", lane},
          {"uses", std::move(uses)},
          {"busy", account_of.busy.count},
          {"communication", account_of.communication.count},
          {"idle", account_of.idle.count},
          {"peak", times.peak_bytes},
          {"spans", std::move(spans)}};
}

void add_lane(const Json& told, TraceLane& lane, std::vector<TraceSpan>& spans) {
  for (const auto& [use, time] : told["uses"].items()) lane.uses[use] = {time.get<std::int64_t>()};
  lane.busy = {told["busy"].get<std::int64_t>()};
  lane.communication = {told["communication"].get<std::int64_t>()};
  lane.idle = {told["idle"].get<std::int64_t>()};
  lane.peak = {told["peak"].get<std::int64_t>()};
  for (const Json& span : told["spans"])
    spans.push_back({.lane = told["lane"].get<std::int64_t>(),
                     .stream = config::TraceStream::kCompute,
                     .name = span[0].get<std::string>(),
                     .kind = span[1].get<std::string>(),
                     .start = {span[2].get<std::int64_t>()},
                     .duration = {span[3].get<std::int64_t>()}});
}

}  // namespace

std::optional<config::Trace> gather_trace(const RankTimes& own, const config::Plan& plan,
                                          const mesh::Mesh& mesh) {
  const schedule::Pipeline pipeline = schedule::pipeline_of(plan);
  const schedule::PipelineMap map(pipeline);
  const Nanoseconds step{mesh.world().largest({in_ns(own.seconds).count}).front()};
  const std::vector<std::string> told = mesh.world().gather_text(
      mesh.leads_stage() ? describe(own, step, lane_of(map, mesh)).dump() : std::string());
  if (mesh.rank() != 0) return std::nullopt;
  config::Trace trace;
  trace.summary.source = "measured";
  trace.summary.plan = "plan.json";
  trace.summary.step = step;
  trace.summary.ranks = mesh.size();
  trace.summary.mfu = own.mfu;
  trace.lanes.resize(static_cast<std::size_t>(map.lanes()));
  double idle = 0;
  for (const std::string& text : told) {
    if (text.empty()) continue;
    const Json one = Json::parse(text);
    const int index = one["lane"].get<int>();
    TraceLane& lane = trace.lanes[static_cast<std::size_t>(index)];
    lane.name = map.describe(index);
    lane.module = pipeline.modules[static_cast<std::size_t>(map.at(index).module)].name;
    lane.ranks = mesh.size() / map.lanes();
    add_lane(one, lane, trace.spans);
    idle += static_cast<double>(lane.idle.count);
  }
  const double all = static_cast<double>(trace.summary.step.count) * map.lanes();
  trace.summary.idle_share = all > 0 ? idle / all : 0;
  std::ranges::stable_sort(trace.spans, {}, [](const TraceSpan& span) {
    return std::pair(span.lane, span.start.count);
  });
  return trace;
}

}  // namespace tributary::train
