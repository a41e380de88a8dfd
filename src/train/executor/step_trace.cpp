#include "train/executor/step_trace.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/text.h"

namespace tributary::train {
namespace {

using config::TraceLane;
using config::TraceSpan;
using schedule::Op;

Nanoseconds in_ns(double seconds) {
  return {std::max<std::int64_t>(0, std::llround(1e9 * seconds))};
}

/// Says where the time of a lane went in the step of all ranks; the rest is `other`.
void account(const RankTimes& times, int own_lane, Nanoseconds step, TraceLane& lane) {
  double compute = 0, collective = 0, end = times.began;
  double wait_activation = 0, wait_gradient = 0;
  for (const PassTimes& pass : times.passes) {
    if (pass.lane != own_lane) continue;
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

/// Adds a lane of this rank to the trace that it sends.
void tell(const RankTimes& times, int own_lane, Nanoseconds step, TraceLane lane,
          config::Trace& told) {
  account(times, own_lane, step, lane);
  lane.peak = {times.peak_bytes};
  const auto add = [&](std::string name, std::string kind, double start, double end) {
    told.spans.push_back({.lane = std::ssize(told.lanes),
                          .name = std::move(name),
                          .kind = std::move(kind),
                          .start = in_ns(start - times.began),
                          .duration = in_ns(end - start)});
  };
  for (const PassTimes& pass : times.passes)
    if (pass.lane == own_lane)
      add(to_text(pass.action), std::string(schedule::span_kind_of(pass.action.op)), pass.start,
          pass.end);
  add("OPT0.0", "optimizer", times.prepared, times.updated);
  told.lanes.push_back(std::move(lane));
}

/// The lanes that this rank tells of: those whose stages it leads.
config::Trace tell_own(const RankTimes& times, const RunLanes& run, const model::Model& model,
                       Nanoseconds step, const std::vector<TraceLane>& lanes) {
  config::Trace told;
  for (const int own : run.own()) {
    const EncoderLane* encoder = run.encoder_on(own);
    const mesh::Mesh& mesh = encoder == nullptr ? *model.layout().mesh : *encoder->mesh;
    if (!mesh.leads_stage()) continue;
    TraceLane lane = lanes[static_cast<std::size_t>(own)];
    lane.ranks = mesh.size() / (mesh.shape().pp * mesh.data_ranks());
    tell(times, own, step, std::move(lane), told);
  }
  return told;
}

}  // namespace

std::optional<config::Trace> gather_trace(const RankTimes& own, const RunLanes& run,
                                          const model::Model& model) {
  const mesh::Group& world = model.layout().mesh->world();
  const schedule::PipelineMap map(run.pipeline);
  const Nanoseconds step{world.largest({in_ns(own.seconds).count}).front()};
  config::Trace trace;
  for (int lane = 0; lane < map.lanes(); ++lane)
    trace.lanes.push_back(
        {.name = map.describe(lane),
         .module = run.pipeline.modules[static_cast<std::size_t>(map.at(lane).module)].name});
  const config::Trace told_own = tell_own(own, run, model, step, trace.lanes);
  const std::vector<std::string> told =
      world.gather_text(told_own.lanes.empty() ? "" : config::write_trace(told_own));
  if (world.index() != 0) return std::nullopt;
  trace.summary.source = "measured";
  trace.summary.plan = "plan.json";
  trace.summary.step = step;
  trace.summary.ranks = world.size();
  trace.summary.mfu = own.mfu;
  double idle = 0;
  for (std::size_t rank = 0; rank < told.size(); ++rank) {
    if (told[rank].empty()) continue;
    config::Trace one = config::parse_trace(told[rank], str("rank ", rank));
    std::vector<std::ptrdiff_t> lane_of;  // of the rank's lanes
    for (TraceLane& told_lane : one.lanes) {
      const auto lane = std::ranges::find(trace.lanes, told_lane.name, &TraceLane::name);
      idle += static_cast<double>(told_lane.idle.count);
      *lane = std::move(told_lane);
      lane_of.push_back(lane - trace.lanes.begin());
    }
    for (TraceSpan& span : one.spans) {
      span.lane = lane_of[static_cast<std::size_t>(span.lane)];
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
