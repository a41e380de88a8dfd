#pragma once

#include <map>
#include <tuple>

#include "schedule/pipeline/dependency_graph.h"

namespace tributary::schedule {

/// Fills a DependencyGraph.
class GraphBuilder {
 public:
  GraphBuilder(const Schedule& schedule, const PipelineMap& map, const Buffers& buffers,
               DependencyGraph& graph);
  void build();

 private:
  /// Messages between two lanes, read in the order in which they are written.
  struct Link {
    std::vector<int> sends;
    std::vector<int> receives;
  };
  using LinkKey = std::tuple<Op, int, int, int>;  // op of the send, from, to, edge or -1

  void add_nodes();
  void index_passes();
  void index_links();
  void add_pass(int node);
  void add_receive(int node, const Action& receive);
  void add_batch(int node, const Action& own);
  void add_message(int node, const Action& receive);
  void add_send(int node);
  void add_meetings();
  void add_meeting(const std::vector<int>& members);
  void gather();

  [[nodiscard]] int& pass_at(int lane, Op op, int chunk, int microbatch);
  [[nodiscard]] LinkKey key_of(int lane, const Action& transfer, int far_lane) const;
  void wait_for(int node, Dependency dependency);

  const Schedule& schedule_;
  const PipelineMap& map_;
  Buffers buffers_;
  DependencyGraph& graph_;
  bool lowered_ = false;
  std::vector<std::vector<int>> passes_;  // [lanes][F, B, W by chunk and microbatch]
  std::map<LinkKey, Link> links_;
  std::map<std::pair<int, const Link*>, int> place_on_link_;    // (node, link) -> number
  std::map<std::tuple<int, Op, int, int, int>, int> receives_;  // by lane and identity
  std::vector<std::pair<int, Dependency>> waits_;
};

}  // namespace tributary::schedule
