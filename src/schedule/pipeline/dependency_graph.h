#pragma once

#include <span>
#include <string>

#include "schedule/pipeline/lower_schedule.h"

namespace tributary::schedule {

/// What an action waits for, besides the previous action on its lane.
struct Dependency {
  int from = 0;       // node; kNever when no list has the awaited action
  int hop_from = -1;  // the lanes that bytes travel between; -1: none do
  int hop_to = -1;
  Bytes bytes = {};

  static constexpr int kNever = -1;
};

/// A lane that cannot continue.
struct BlockedLane {
  int lane;
  int node;
  int waits_for;  // node, or Dependency::kNever
};

/// Every wait of a schedule, of passes or lowered: data, messages in the order of their link,
/// occupied send buffers, turns of lanes on the same ranks, and the meetings of replicas for
/// reductions and of all lanes for the step.
///
/// owns:   nothing of the schedule, which must outlive it
/// units:  a node is an action, lane by lane; the meetings come after the actions
/// cost:   O(actions) memory; made once and timed with many costs
class DependencyGraph {
 public:
  DependencyGraph(const Schedule& schedule, const PipelineMap& map, const Buffers& buffers);

  [[nodiscard]] int nodes() const { return static_cast<int>(std::ssize(lane_of_)); }
  [[nodiscard]] int actions() const { return first_node_.back(); }
  [[nodiscard]] int first_node(int lane) const { return first_node_[lane]; }
  [[nodiscard]] int lane_of(int node) const { return lane_of_[node]; }  // -1: a meeting
  [[nodiscard]] const Action& action(int node) const { return *action_[node]; }
  [[nodiscard]] std::span<const Dependency> dependencies(int node) const {
    return std::span(dependencies_)
        .subspan(first_dependency_[node], first_dependency_[node + 1] - first_dependency_[node]);
  }
  /// Nodes, each after all that it waits for; fewer than nodes() when some lanes are blocked.
  [[nodiscard]] std::span<const int> order() const { return order_; }
  [[nodiscard]] std::span<const BlockedLane> blocked() const { return blocked_; }
  [[nodiscard]] bool starts_lane(int node) const {
    return lane_of_[node] < 0 || first_node_[lane_of_[node]] == node;
  }

 private:
  friend class GraphBuilder;
  void sort();
  void find_blocked(const std::vector<int>& unmet);

  std::vector<int> first_node_;  // [lanes + 1]
  std::vector<int> lane_of_;     // [nodes]
  std::vector<const Action*> action_;
  std::vector<int> first_dependency_;  // [nodes + 1]
  std::vector<Dependency> dependencies_;
  std::vector<int> order_;
  std::vector<BlockedLane> blocked_;
};

/// `vision replica 0 stage 1 stops at F0.3, which waits for ...`, one sentence for each blocked
/// lane.
[[nodiscard]] std::string describe_deadlock(const DependencyGraph& graph, const PipelineMap& map);

}  // namespace tributary::schedule
