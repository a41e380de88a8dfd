#include "schedule/pipeline/time_schedule.h"

#include <algorithm>

#include "core/error.h"

namespace tributary::schedule {
namespace {

/// Computes start and end of all nodes, in the order of the graph.
class Timing {
 public:
  Timing(const DependencyGraph& graph, const ScheduleCosts& costs)
      : graph_(graph),
        costs_(costs),
        start_(static_cast<std::size_t>(graph.nodes())),
        end_(static_cast<std::size_t>(graph.nodes())) {
    TRIB_CHECK(graph.blocked().empty(), .what = "schedule: blocked schedule cannot be timed",
               .found = str(graph.blocked().size(), " blocked lanes"));
    for (const int node : graph.order()) run(node);
  }

  [[nodiscard]] Nanoseconds makespan() const {
    return end_.empty() ? Nanoseconds{} : *std::max_element(end_.begin(), end_.end());
  }

  /// The node whose end lets `node` start; -1 when it starts at once.
  [[nodiscard]] int decisive(int node) const {
    int lowest = -1;
    const auto consider = [&](int from, Nanoseconds arrival) {
      if (arrival == start_[node] && (lowest < 0 || from < lowest)) lowest = from;
    };
    if (!graph_.starts_lane(node)) consider(node - 1, end_[node - 1]);
    for (const Dependency& each : graph_.dependencies(node)) consider(each.from, arrival(each));
    return lowest;
  }

  [[nodiscard]] std::vector<int> critical_path() const {
    std::vector<int> path;
    const auto last = std::max_element(end_.begin(), end_.end());
    int node = last == end_.end() ? -1 : static_cast<int>(last - end_.begin());
    for (; node >= 0; node = decisive(node)) path.push_back(node);
    std::reverse(path.begin(), path.end());
    return path;
  }

  std::vector<Nanoseconds>& start() { return start_; }
  std::vector<Nanoseconds>& end() { return end_; }

 private:
  [[nodiscard]] Nanoseconds arrival(const Dependency& dependency) const {
    const Nanoseconds end = end_[dependency.from];
    if (dependency.hop_from < 0 || !costs_.hop) return end;
    return end + costs_.hop(dependency.hop_from, dependency.hop_to, dependency.bytes);
  }
  void run(int node) {
    Nanoseconds start = graph_.starts_lane(node) ? Nanoseconds{} : end_[node - 1];
    for (const Dependency& each : graph_.dependencies(node)) start = std::max(start, arrival(each));
    start_[node] = start;
    const int lane = graph_.lane_of(node);
    end_[node] = lane < 0 ? start : start + costs_.action(lane, graph_.action(node));
  }

  const DependencyGraph& graph_;
  const ScheduleCosts& costs_;
  std::vector<Nanoseconds> start_;
  std::vector<Nanoseconds> end_;
};

LaneTime time_lane(const DependencyGraph& graph, int lane, const ScheduleTime& time) {
  const int begin = graph.first_node(lane);
  const int end = graph.first_node(lane + 1);
  Nanoseconds first_backward = time.makespan;
  Nanoseconds last_forward;
  for (int node = begin; node < end; ++node) {
    const Op op = graph.action(node).op;
    if (gives_input_gradient(op)) first_backward = std::min(first_backward, time.start[node]);
    if (op == Op::kForward) last_forward = std::max(last_forward, time.end[node]);
  }
  LaneTime lane_time;
  const auto add_idle = [&](Nanoseconds from, Nanoseconds until) {
    Nanoseconds& part = until <= first_backward ? lane_time.warm_up
                        : from >= last_forward  ? lane_time.drain
                                                : lane_time.steady;
    part += until - from;
  };
  Nanoseconds clock;
  for (int node = begin; node < end; ++node) {
    add_idle(clock, time.start[node]);
    lane_time.busy += time.end[node] - time.start[node];
    clock = time.end[node];
  }
  add_idle(clock, time.makespan);
  return lane_time;
}

Nanoseconds cost_of(const PipelineMap& map, int lane, const Action& action) {
  if (!is_pass(action.op)) return {};
  const Lane of = map.at(lane);
  const PipelineModule& module = map.pipeline().modules[of.module];
  const PassTimes times = module.times.empty()
                              ? PassTimes{}
                              : module.times[map.virtual_stage(of.module, of.stage, action.chunk)];
  switch (action.op) {
    case Op::kForward:
      return times.forward;
    case Op::kBackwardInput:
      return times.backward_input;
    case Op::kBackwardWeight:
      return times.backward_weight;
    default:
      return times.backward_input + times.backward_weight;
  }
}

}  // namespace

ScheduleCosts costs_of(const PipelineMap& map) {
  const Nanoseconds hop = map.pipeline().hop;
  return {.action = [&map](int lane, const Action& action) { return cost_of(map, lane, action); },
          .hop = [hop](int, int, Bytes) { return hop; }};
}

double ScheduleTime::bubble_share() const {
  if (makespan.count == 0) return 0;
  double busy = 0;
  for (const LaneTime& lane : lanes) busy += static_cast<double>(lane.busy.count);
  return 1 - busy / (static_cast<double>(lanes.size()) * static_cast<double>(makespan.count));
}

ScheduleTime time_schedule(const DependencyGraph& graph, const PipelineMap& map,
                           const ScheduleCosts& costs) {
  Timing timing(graph, costs);
  ScheduleTime time{.makespan = timing.makespan(),
                    .start = {},
                    .end = {},
                    .lanes = {},
                    .critical_path = timing.critical_path()};
  time.start = std::move(timing.start());
  time.end = std::move(timing.end());
  for (int lane = 0; lane < map.lanes(); ++lane) time.lanes.push_back(time_lane(graph, lane, time));
  return time;
}

Nanoseconds makespan_of(const DependencyGraph& graph, const ScheduleCosts& costs) {
  return Timing(graph, costs).makespan();
}

}  // namespace tributary::schedule
