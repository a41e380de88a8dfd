#include "train/executor/step_trace.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/text.h"
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

/// Says where the time of the rank went in the step of all ranks; the rest is `other`.
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

/// The trace that a rank sends: its own lane.
config::Trace describe(const RankTimes& times, Nanoseconds step, TraceLane lane) {
  account(times, step, lane);
  lane.peak = {times.peak_bytes};
  config::Trace own{.summary = {}, .lanes = {std::move(lane)}, .spans = {}};
  const auto add = [&](std::string name, std::string kind, double start, double end) {
    own.spans.push_back({.name = std::move(name),
                         .kind = std::move(kind),
                         .start = in_ns(start - times.began),
                         .duration = in_ns(end - start)});
  };
  for (const PassTimes& pass : times.passes)
    add(to_text(pass.action), std::string(schedule::span_kind_of(pass.action.op)), pass.start,
        pass.end);
  add("OPT0.0", "optimizer", times.prepared, times.updated);
  return own;
}

}  // namespace

std::optional<config::Trace> gather_trace(const RankTimes& own, const config::Plan& plan,
                                          const mesh::Mesh& mesh) {
  const schedule::Pipeline pipeline = schedule::pipeline_of(plan);
  const schedule::PipelineMap map(pipeline);
  const Nanoseconds step{mesh.world().largest({in_ns(own.seconds).count}).front()};
  config::Trace trace;
  for (int lane = 0; lane < map.lanes(); ++lane)
    trace.lanes.push_back(
        {.name = map.describe(lane),
         .module = pipeline.modules[static_cast<std::size_t>(map.at(lane).module)].name,
         .ranks = mesh.size() / map.lanes()});
  std::string own_text;
  if (mesh.leads_stage()) {
    const auto lane = static_cast<std::size_t>(lane_of(map, mesh));
    own_text = config::write_trace(describe(own, step, trace.lanes[lane]));
  }
  const std::vector<std::string> told = mesh.world().gather_text(own_text);
  if (mesh.rank() != 0) return std::nullopt;
  trace.summary.source = "measured";
  trace.summary.plan = "plan.json";
  trace.summary.step = step;
  trace.summary.ranks = mesh.size();
  trace.summary.mfu = own.mfu;
  double idle = 0;
  for (std::size_t rank = 0; rank < told.size(); ++rank) {
    if (told[rank].empty()) continue;
    config::Trace one = config::parse_trace(told[rank], str("rank ", rank));
    const auto lane = std::ranges::find(trace.lanes, one.lanes.front().name, &TraceLane::name);
    idle += static_cast<double>(one.lanes.front().idle.count);
    *lane = std::move(one.lanes.front());
    for (TraceSpan& span : one.spans) {
      span.lane = lane - trace.lanes.begin();
      trace.spans.push_back(std::move(span));
    }
  }
  const double all = static_cast<double>(trace.summary.step.count) * map.lanes();
  trace.summary.idle_share = all > 0 ? idle / all : 0;
  std::ranges::stable_sort(trace.spans, {}, [](const TraceSpan& span) {
    return std::pair(span.lane, span.start.count);
  });
  return trace;
}

}  // namespace tributary::train
