#include "schedule/pipeline/dependency_graph.h"

#include <algorithm>

#include "core/text.h"
#include "schedule/pipeline/graph_builder.h"

namespace tributary::schedule {

DependencyGraph::DependencyGraph(const Schedule& schedule, const PipelineMap& map,
                                 const Buffers& buffers) {
  GraphBuilder(schedule, map, buffers, *this).build();
  sort();
}

/// Sorts nodes in the order in which they become ready, lanes first to last. Nodes that remain are
/// blocked.
void DependencyGraph::sort() {
  std::vector<int> unmet(static_cast<std::size_t>(nodes()), 0);
  std::vector<int> first_follower(static_cast<std::size_t>(nodes()) + 1, 0);
  const auto for_each_wait = [this](const auto& visit) {
    for (int node = 0; node < nodes(); ++node) {
      if (!starts_lane(node)) visit(node - 1, node);
      for (const Dependency& dependency : dependencies(node)) visit(dependency.from, node);
    }
  };
  for_each_wait([&](int from, int node) {
    ++unmet[node];
    if (from != Dependency::kNever) ++first_follower[from + 1];
  });
  for (int node = 0; node < nodes(); ++node) first_follower[node + 1] += first_follower[node];
  std::vector<int> followers(static_cast<std::size_t>(first_follower.back()));
  std::vector<int> next(first_follower.begin(), first_follower.end() - 1);
  for_each_wait([&](int from, int node) {
    if (from != Dependency::kNever) followers[next[from]++] = node;
  });
  for (int node = 0; node < nodes(); ++node)
    if (unmet[node] == 0) order_.push_back(node);
  for (std::size_t at = 0; at < order_.size(); ++at) {
    const int node = order_[at];
    for (int i = first_follower[node]; i < first_follower[node + 1]; ++i)
      if (--unmet[followers[i]] == 0) order_.push_back(followers[i]);
  }
  if (std::ssize(order_) < nodes()) find_blocked(unmet);
}

void DependencyGraph::find_blocked(const std::vector<int>& unmet) {
  for (int lane = 0; lane + 1 < std::ssize(first_node_); ++lane) {
    int head = first_node_[lane];
    while (head < first_node_[lane + 1] && unmet[head] == 0) ++head;
    if (head == first_node_[lane + 1]) continue;
    const auto waits = dependencies(head);
    const auto missing = std::find_if(waits.begin(), waits.end(), [&](const Dependency& each) {
      return each.from == Dependency::kNever || unmet[each.from] > 0;
    });
    blocked_.push_back({.lane = lane,
                        .node = head,
                        .waits_for = missing == waits.end() ? Dependency::kNever : missing->from});
  }
}

std::string describe_deadlock(const DependencyGraph& graph, const PipelineMap& map) {
  std::string text;
  for (const BlockedLane& blocked : graph.blocked()) {
    text += str(text.empty() ? "" : "; ", map.describe(blocked.lane), " stops at ",
                to_text(graph.action(blocked.node)), ", which waits for ");
    if (blocked.waits_for == Dependency::kNever) {
      text += "what no list has";
    } else if (graph.lane_of(blocked.waits_for) < 0) {
      text += "the other lanes";
    } else {
      text += str(to_text(graph.action(blocked.waits_for)), " of ",
                  map.describe(graph.lane_of(blocked.waits_for)));
    }
  }
  return text;
}

}  // namespace tributary::schedule
