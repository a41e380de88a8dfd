#pragma once

#include <functional>
#include <string>
#include <vector>

#include "schedule/pipeline/dependency_graph.h"

namespace tributary::schedule {

/// The times of actions and transfers.
struct ScheduleCosts {
  std::function<Nanoseconds(int lane, const Action&)> action;
  std::function<Nanoseconds(int from_lane, int to_lane, Bytes)> hop;  // empty: no time
};

/// Costs from the times of each module's virtual stages (1 ns a pass where they are not given), 0
/// for other actions, and the pipeline's hop between lanes.
///
/// owns: a reference to the map, which must outlive it
[[nodiscard]] ScheduleCosts costs_of(const PipelineMap& map);

/// The time of one lane: busy + idle is the makespan.
struct LaneTime {
  Nanoseconds busy;
  Nanoseconds warm_up;  // idle before the first backward begins
  Nanoseconds steady;   // idle between the other two
  Nanoseconds drain;    // idle after the last forward ends

  [[nodiscard]] Nanoseconds idle() const { return warm_up + steady + drain; }
};

/// When every action of a schedule runs.
struct ScheduleTime {
  Nanoseconds makespan;
  std::vector<Nanoseconds> start;  // [nodes of the graph]
  std::vector<Nanoseconds> end;    // [nodes]
  std::vector<LaneTime> lanes;
  std::vector<int> critical_path;  // nodes, first to last; ties take the lowest

  /// Idle fraction of all lanes, 0 to 1.
  [[nodiscard]] double bubble_share() const;
};

/// Times a schedule: an action starts when the previous one on its lane has ended and all that it
/// waits for has ended and arrived.
///
/// errors: Fault::kBug when lanes are blocked (ask graph.blocked() first)
/// cost:   one pass over nodes and dependencies
/// source: docs/theory/parallelism.md, "Timing of a schedule"
[[nodiscard]] ScheduleTime time_schedule(const DependencyGraph& graph, const PipelineMap& map,
                                         const ScheduleCosts& costs);

/// Only the makespan, for searches that ask often.
[[nodiscard]] Nanoseconds makespan_of(const DependencyGraph& graph, const ScheduleCosts& costs);

}  // namespace tributary::schedule
