#include "schedule/pipeline/dependency_graph.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "core/text.h"

namespace tributary::schedule {
namespace {

int kind_of(Op op) { return op == Op::kForward ? 0 : op == Op::kBackwardWeight ? 2 : 1; }

}  // namespace

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
  void add_turns(int node);
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
  int microbatches_ = 0;  // of the module with the most
  bool lowered_ = false;
  std::vector<std::vector<int>> passes_;  // [lanes][F, B, W by chunk and microbatch]
  std::map<LinkKey, Link> links_;
  std::map<std::pair<int, const Link*>, int> place_on_link_;    // (node, link) -> number
  std::map<std::tuple<int, Op, int, int, int>, int> receives_;  // by lane and identity
  std::vector<std::pair<int, Dependency>> waits_;
};

GraphBuilder::GraphBuilder(const Schedule& schedule, const PipelineMap& map, const Buffers& buffers,
                           DependencyGraph& graph)
    : schedule_(schedule), map_(map), buffers_(buffers), graph_(graph) {
  for (int module = 0; module < std::ssize(schedule.pipeline.modules); ++module)
    microbatches_ = std::max(microbatches_, map.microbatches_of(module));
}

void GraphBuilder::build() {
  add_nodes();
  index_passes();
  index_links();
  for (int node = 0; node < graph_.actions(); ++node) {
    if (is_pass(graph_.action(node).op)) add_pass(node);
    if (is_send(graph_.action(node).op)) add_send(node);
  }
  if (lowered_) add_meetings();
  gather();
}

void GraphBuilder::add_nodes() {
  for (int lane = 0; lane < map_.lanes(); ++lane) {
    graph_.first_node_.push_back(static_cast<int>(std::ssize(graph_.action_)));
    for (const Action& action : schedule_.lists[lane]) {
      graph_.action_.push_back(&action);
      graph_.lane_of_.push_back(lane);
      lowered_ = lowered_ || !(is_pass(action.op) || is_turn(action.op));
    }
  }
  graph_.first_node_.push_back(static_cast<int>(std::ssize(graph_.action_)));
}

int& GraphBuilder::pass_at(int lane, Op op, int chunk, int microbatch) {
  return passes_[lane][(3 * chunk + kind_of(op)) * microbatches_ + microbatch];
}

void GraphBuilder::index_passes() {
  for (int lane = 0; lane < map_.lanes(); ++lane) {
    const int chunks = schedule_.pipeline.modules[map_.at(lane).module].chunks;
    passes_.emplace_back(std::size_t{3} * chunks * microbatches_, Dependency::kNever);
  }
  for (int node = 0; node < graph_.actions(); ++node) {
    const Action& action = graph_.action(node);
    if (is_pass(action.op))
      pass_at(graph_.lane_of(node), action.op, action.chunk, action.microbatch) = node;
  }
}

GraphBuilder::LinkKey GraphBuilder::key_of(int lane, const Action& transfer, int far_lane) const {
  const bool is_of_edge = stream_of(transfer.op) == Stream::kFeatures;
  const int edge = is_of_edge ? transfer.peer : -1;
  if (is_send(transfer.op)) return {transfer.op, lane, far_lane, edge};
  return {static_cast<Op>(static_cast<int>(transfer.op) - 1), far_lane, lane, edge};
}

void GraphBuilder::index_links() {
  for (int node = 0; node < graph_.actions(); ++node) {
    const Action& action = graph_.action(node);
    const bool sends = is_send(action.op);
    if (!sends && !is_receive(action.op)) continue;
    const int lane = graph_.lane_of(node);
    for (const FarEnd& far : far_ends_of(map_, lane, action)) {
      // The lane in the list takes part, even if the list is wrong.
      const int far_lane = stream_of(action.op) == Stream::kFeatures ? far.lane : action.peer;
      Link& link = links_[key_of(lane, action, far_lane)];
      std::vector<int>& side = sends ? link.sends : link.receives;
      place_on_link_[{node, &link}] = static_cast<int>(std::ssize(side));
      side.push_back(node);
    }
    if (!sends) receives_[{lane, action.op, action.chunk, action.microbatch, action.peer}] = node;
  }
}

void GraphBuilder::wait_for(int node, Dependency dependency) {
  waits_.emplace_back(node, dependency);
}

/// A pass waits for passes of its own lane, for hand-overs, and for messages.
void GraphBuilder::add_pass(int node) {
  const Action& pass = graph_.action(node);
  const int lane = graph_.lane_of(node);
  add_turns(node);
  if (pass.op != Op::kForward)
    wait_for(node, {.from = pass_at(lane, Op::kForward, pass.chunk, pass.microbatch)});
  if (pass.op == Op::kBackwardWeight) {
    wait_for(node, {.from = pass_at(lane, Op::kBackwardInput, pass.chunk, pass.microbatch)});
    return;
  }
  const Lane of = map_.at(lane);
  const int virtual_stage = map_.virtual_stage(of.module, of.stage, pass.chunk);
  const int before = virtual_stage + (pass.op == Op::kForward ? -1 : 1);
  const bool inside =
      before >= 0 && before < schedule_.pipeline.modules[of.module].virtual_stages();
  if (inside && map_.position_of(of.module, before).stage == of.stage)
    wait_for(node, {.from = pass_at(lane, pass.op, map_.position_of(of.module, before).chunk,
                                    pass.microbatch)});
  for (const Action& receive : transfers_of(map_, lane, pass).receives) {
    add_receive(node, receive);
    if (stream_of(receive.op) == Stream::kFeatures && map_.goes_in_one_batch(receive.peer))
      add_batch(node, receive);
  }
}

void GraphBuilder::add_receive(int node, const Action& receive) {
  if (lowered_) return add_message(node, receive);
  const int lane = graph_.lane_of(node);
  for (const FarEnd& far : far_ends_of(map_, lane, receive))
    wait_for(node, {.from = pass_at(far.lane, graph_.action(node).op, far.action.chunk,
                                    receive.microbatch),
                    .hop_from = far.lane,
                    .hop_to = lane,
                    .bytes = receive.bytes});
}

/// The first pass that reads from a batch waits for the whole batch.
void GraphBuilder::add_batch(int node, const Action& own) {
  const int lane = graph_.lane_of(node);
  const Action& pass = graph_.action(node);
  for (int before = graph_.first_node(lane); before < node; ++before) {
    const Action& other = graph_.action(before);
    if (kind_of(other.op) == kind_of(pass.op) && is_pass(other.op) && other.chunk == pass.chunk)
      return;
  }
  Action receive = own;
  for (receive.microbatch = 0; receive.microbatch < schedule_.pipeline.microbatches;
       ++receive.microbatch)
    if (receive.microbatch != own.microbatch) add_receive(node, receive);
}

/// A message arrives after its travel, which begins when both sides are ready.
void GraphBuilder::add_message(int node, const Action& receive) {
  const int lane = graph_.lane_of(node);
  const auto found =
      receives_.find({lane, receive.op, receive.chunk, receive.microbatch, receive.peer});
  if (found == receives_.end()) {
    wait_for(node, {.from = Dependency::kNever});
    return;
  }
  for (const FarEnd& far : far_ends_of(map_, lane, receive)) {
    const Link& link = links_[key_of(lane, receive, far.lane)];
    const int number = place_on_link_[{found->second, &link}];
    const int send = number < std::ssize(link.sends) ? link.sends[number] : Dependency::kNever;
    for (const int side : {send, found->second})
      wait_for(node, {.from = side, .hop_from = far.lane, .hop_to = lane, .bytes = receive.bytes});
  }
}

/// A pass waits for the turns that come before it, behind the last pass.
void GraphBuilder::add_turns(int node) {
  const int lane = graph_.lane_of(node);
  for (int turn = node - 1; turn >= graph_.first_node(lane) && !is_pass(graph_.action(turn).op);
       --turn) {
    if (graph_.action(turn).op != Op::kReceiveTurn) continue;
    const Link& link = links_[key_of(lane, graph_.action(turn), graph_.action(turn).peer)];
    const int number = place_on_link_[{turn, &link}];
    wait_for(node,
             {.from = number < std::ssize(link.sends) ? link.sends[number] : Dependency::kNever});
  }
}

/// A send waits until the link has a free buffer.
void GraphBuilder::add_send(int node) {
  const Action& send = graph_.action(node);
  const int lane = graph_.lane_of(node);
  if (is_turn(send.op)) return;
  if (stream_of(send.op) == Stream::kFeatures && map_.is_of_colocated(send.peer)) return;
  for (const FarEnd& far : far_ends_of(map_, lane, send)) {
    const int far_lane = stream_of(send.op) == Stream::kFeatures ? far.lane : send.peer;
    const Link& link = links_[key_of(lane, send, far_lane)];
    const int earlier = place_on_link_[{node, &link}] - buffers_.send;
    if (earlier < 0) continue;
    const int taken =
        earlier < std::ssize(link.receives) ? link.receives[earlier] : Dependency::kNever;
    for (const int side : {link.sends[earlier], taken})
      wait_for(node, {.from = side, .hop_from = lane, .hop_to = far_lane, .bytes = send.bytes});
  }
}

/// Reductions begin when all replicas have arrived, the step when all lanes have.
void GraphBuilder::add_meetings() {
  std::map<std::tuple<int, int, int>, std::vector<int>> reductions;  // module, stage, chunk
  std::vector<int> steps;
  for (int node = 0; node < graph_.actions(); ++node) {
    const Action& action = graph_.action(node);
    const Lane of = map_.at(graph_.lane_of(node));
    if (action.op == Op::kReduceGradients)
      reductions[{of.module, of.stage, action.chunk}].push_back(node);
    if (action.op == Op::kOptimizerStep) steps.push_back(node);
  }
  for (const auto& [of, members] : reductions) add_meeting(members);
  add_meeting(steps);
}

void GraphBuilder::add_meeting(const std::vector<int>& members) {
  if (members.size() < 2) return;
  const int meeting = graph_.nodes();
  graph_.lane_of_.push_back(-1);
  graph_.action_.push_back(nullptr);
  for (const int member : members) {
    if (!graph_.starts_lane(member)) wait_for(meeting, {.from = member - 1});
    wait_for(member, {.from = meeting});
  }
}

/// Stores the waits node by node.
void GraphBuilder::gather() {
  graph_.first_dependency_.assign(static_cast<std::size_t>(graph_.nodes()) + 1, 0);
  for (const auto& [node, dependency] : waits_) ++graph_.first_dependency_[node + 1];
  for (int node = 0; node < graph_.nodes(); ++node)
    graph_.first_dependency_[node + 1] += graph_.first_dependency_[node];
  std::vector<int> next(graph_.first_dependency_.begin(), graph_.first_dependency_.end() - 1);
  graph_.dependencies_.resize(waits_.size());
  for (const auto& [node, dependency] : waits_) graph_.dependencies_[next[node]++] = dependency;
}

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
