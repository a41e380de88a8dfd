#include "plan/exact/judge/replica_timer.h"

#include <algorithm>

#include "core/error.h"

namespace tributary::plan {
namespace {

using schedule::Op;

constexpr std::int64_t kUnknown = -1;

/// Follows every lane of every replica as far as it comes; what arrives wakes who waits for it.
class Run {
 public:
  Run(const StepProgram& program, const ReplicaTimer& timer, const ReplicaLoad& load)
      : program_(program), timer_(timer), load_(load) {
    for (int lane = 0; lane < program.lanes(); ++lane) {
      const int module = timer.module_of(lane);
      first_node_.push_back(static_cast<int>(nodes_.size()));
      for (int replica = 0; replica < replicas_of(lane); ++replica)
        nodes_.push_back({.lane = lane,
                          .replica = replica,
                          .next = program.first_action(lane),
                          .passes = &load.passes[module][static_cast<std::size_t>(replica) *
                                                         timer.replica_size(module)]});
    }
    lay_out_pairs();
    lay_out_edges();
    reductions_.resize(program.reductions().size());
  }

  Nanoseconds makespan() {
    line_up();
    while (!ready_.empty()) {
      Node& node = nodes_[ready_.back()];
      ready_.pop_back();
      advance(node);
    }
    std::int64_t latest = 0;
    for (const Node& node : nodes_) {
      TRIB_CHECK(node.next == program_.first_action(node.lane + 1),
                 .what = "plan: step of a candidate never ends",
                 .found = describe(program_, node.next));
      latest = std::max({latest, node.clock, node.reduced});
    }
    return {latest};
  }

 private:
  struct Node {
    int lane = 0;
    int replica = 0;
    int next = 0;
    int waits_for = -1;  // message
    bool meets = false;
    std::int64_t clock = 0;
    std::int64_t reduced = 0;
    const PassCosts* passes = nullptr;  // of its replica
    std::size_t pairs = 0;              // of its replica, into pairs_
  };
  /// A message between two stages of one replica: there once it is given and a buffer is posted.
  struct Pair {
    std::int64_t first = kUnknown;  // of both
    std::int64_t arrival = kUnknown;
  };
  /// All messages of a round from the replicas of one lane to those of another.
  struct Edge {
    std::size_t given = 0;   // into times_: [replicas of the giver]
    std::size_t posted = 0;  // into times_: [replicas of the taker]
    int left_to_give = 0;
    int left_to_post = 0;
    std::int64_t last_given = 0;
    std::int64_t last_posted = 0;
    std::int64_t travel = 0;
  };
  struct Meeting {
    int arrived = 0;
    std::int64_t ready = 0;
    std::int64_t end = 0;
  };

  [[nodiscard]] int replicas_of(int lane) const { return load_.replicas[timer_.module_of(lane)]; }

  /// Replica after replica, so that what one is at work on stays near.
  void line_up() {
    const int most = *std::max_element(load_.replicas.begin(), load_.replicas.end());
    for (int replica = most - 1; replica >= 0; --replica)
      for (int lane = program_.lanes() - 1; lane >= 0; --lane)
        if (replica < replicas_of(lane)) ready_.push_back(first_node_[lane] + replica);
  }

  void lay_out_pairs() {
    std::vector<std::size_t> first;  // [modules]
    std::size_t next = 0;
    for (std::size_t module = 0; module < load_.replicas.size(); ++module) {
      first.push_back(next);
      next += static_cast<std::size_t>(load_.replicas[module]) *
              timer_.messages_inside(static_cast<int>(module));
    }
    pairs_.resize(next);
    for (Node& node : nodes_) {
      const int module = timer_.module_of(node.lane);
      node.pairs =
          first[module] + static_cast<std::size_t>(node.replica) * timer_.messages_inside(module);
    }
  }

  void lay_out_edges() {
    const int messages = static_cast<int>(program_.messages().size());
    edge_of_.assign(static_cast<std::size_t>(messages), -1);
    std::size_t times = 0;
    for (int i = 0; i < messages; ++i) {
      const ReplicaTimer::MessagePlace& place = timer_.of_message(i);
      if (!place.is_edge) continue;
      edge_of_[i] = static_cast<int>(edges_.size());
      Edge& edge = edges_.emplace_back();
      edge.left_to_give = replicas_of(place.from);
      edge.left_to_post = replicas_of(place.to);
      edge.given = times;
      edge.posted = edge.given + static_cast<std::size_t>(edge.left_to_give);
      times = edge.posted + static_cast<std::size_t>(edge.left_to_post);
      std::int64_t largest = 0;
      const std::vector<PassCosts>& passes = load_.passes[place.module];
      for (std::size_t at = place.place; at < passes.size();
           at += timer_.replica_size(place.module))
        largest = std::max(largest, timer_.boundary(place, &passes[at - place.place]));
      edge.travel = travel(place, largest);
    }
    times_.assign(times, kUnknown);
  }

  [[nodiscard]] static std::int64_t travel(const ReplicaTimer::MessagePlace& place,
                                           std::int64_t bytes) {
    return travel_time(place.latency, place.bytes_per_ns, {bytes}).count;
  }

  void advance(Node& node) {
    const int end = program_.first_action(node.lane + 1);
    for (; node.next < end; ++node.next)
      if (!perform(node)) return;
  }

  /// False when the lane has to wait.
  bool perform(Node& node) {
    const int action = node.next;
    switch (program_.kind(action)) {
      case StepKind::kPass:
        for (const int message : program_.messages_of(action))
          if (!wait_until(arrival_at_taker(message, node), message, node)) return false;
        node.clock += duration_of(action, node);
        return true;
      case StepKind::kSend:
        for (const int message : program_.messages_of(action)) {
          const int earlier = message - program_.send_buffers(program_.channel_of(message));
          if (earlier < timer_.of_message(message).first) continue;
          if (!wait_until(arrival_of_giver(earlier, node), earlier, node)) return false;
        }
        for (const int message : program_.messages_of(action)) give(message, node);
        return true;
      case StepKind::kReceive:
        for (const int message : program_.messages_of(action)) post(message, node);
        return true;
      case StepKind::kReduce:
        join_reduction(action, node);
        return true;
      case StepKind::kOptimize:
        if (!node.meets) join_step(node);
        return false;
      case StepKind::kHand:
        return true;
    }
    return true;
  }

  [[nodiscard]] std::int64_t duration_of(int action, const Node& node) const {
    const ReplicaTimer::ActionPlace& of = timer_.of_action(action);
    const PassCosts& costs = node.passes[of.place];
    switch (of.duration) {
      case ReplicaTimer::Duration::kForward:
        return costs.forward;
      case ReplicaTimer::Duration::kInput:
        return costs.input_gradient;
      case ReplicaTimer::Duration::kWeight:
        return costs.weight_gradient;
      case ReplicaTimer::Duration::kWhole:
        return costs.input_gradient + costs.weight_gradient;
      case ReplicaTimer::Duration::kFixed:
        break;
    }
    return 0;
  }

  static bool wait_until(std::int64_t time, int message, Node& node) {
    if (time == kUnknown) {
      node.waits_for = message;
      return false;
    }
    node.clock = std::max(node.clock, time);
    return true;
  }

  [[nodiscard]] const Pair& pair_of(int message, const Node& node) const {
    return pairs_[node.pairs + timer_.of_message(message).number];
  }
  /// When a replica that takes a message has it; unknown while a giver or its own buffer is
  /// missing.
  [[nodiscard]] std::int64_t arrival_at_taker(int message, const Node& node) const {
    if (edge_of_[message] < 0) return pair_of(message, node).arrival;
    const Edge& edge = edges_[edge_of_[message]];
    const std::int64_t posted = times_[edge.posted + node.replica];
    if (edge.left_to_give > 0 || posted == kUnknown) return kUnknown;
    return std::max(edge.last_given, posted) + edge.travel;
  }
  /// When all that a replica gave has come where it goes.
  [[nodiscard]] std::int64_t arrival_of_giver(int message, const Node& node) const {
    if (edge_of_[message] < 0) return pair_of(message, node).arrival;
    const Edge& edge = edges_[edge_of_[message]];
    if (edge.left_to_post > 0) return kUnknown;
    return std::max(times_[edge.given + node.replica], edge.last_posted) + edge.travel;
  }

  void give(int message, const Node& node) {
    if (edge_of_[message] < 0) return meet(message, node);
    Edge& edge = edges_[edge_of_[message]];
    times_[edge.given + node.replica] = node.clock;
    edge.last_given = std::max(edge.last_given, node.clock);
    if (--edge.left_to_give == 0) wake_all(timer_.of_message(message).to, message);
  }
  void post(int message, const Node& node) {
    if (edge_of_[message] < 0) return meet(message, node);
    Edge& edge = edges_[edge_of_[message]];
    times_[edge.posted + node.replica] = node.clock;
    edge.last_posted = std::max(edge.last_posted, node.clock);
    if (--edge.left_to_post == 0) wake_all(timer_.of_message(message).from, message);
  }
  /// A message travels once its giver and its taker have both come to it.
  void meet(int message, const Node& node) {
    const ReplicaTimer::MessagePlace& place = timer_.of_message(message);
    Pair& pair = pairs_[node.pairs + place.number];
    if (pair.first == kUnknown) {
      pair.first = node.clock;
      return;
    }
    pair.arrival =
        std::max(pair.first, node.clock) + travel(place, node.passes[place.place].boundary);
    wake(first_node_[place.from] + node.replica, message);
    wake(first_node_[place.to] + node.replica, message);
  }
  void wake_all(int lane, int message) {
    for (int replica = 0; replica < replicas_of(lane); ++replica)
      wake(first_node_[lane] + replica, message);
  }
  void wake(int node, int message) {
    if (nodes_[node].waits_for != message) return;
    nodes_[node].waits_for = -1;
    ready_.push_back(node);
  }

  void join_reduction(int action, Node& node) {
    const int index = program_.reduction_of(action);
    const StepMeeting& meeting = program_.reductions()[index];
    Meeting& met = reductions_[index];
    met.ready = std::max(met.ready, node.clock);
    if (++met.arrived < replicas_of(node.lane) * std::ssize(meeting.members)) return;
    std::int64_t longest = 0;
    for (const int member : meeting.members) longest = std::max(longest, load_.fixed[member].count);
    met.end = met.ready;
    for (const int before : meeting.before) met.end = std::max(met.end, reductions_[before].end);
    met.end += longest;
    for (const int member : meeting.members) {
      const int lane = program_.lane_of(member);
      for (int replica = 0; replica < replicas_of(lane); ++replica) {
        std::int64_t& reduced = nodes_[first_node_[lane] + replica].reduced;
        reduced = std::max(reduced, met.end);
      }
    }
  }

  void join_step(Node& node) {
    node.meets = true;
    step_.ready = std::max(step_.ready, node.clock);
    int members = 0;
    for (const int member : program_.step().members)
      members += replicas_of(program_.lane_of(member));
    if (++step_.arrived < members) return;
    for (const int member : program_.step().members) {
      const int lane = program_.lane_of(member);
      for (int replica = 0; replica < replicas_of(lane); ++replica)
        step_.ready = std::max(step_.ready, nodes_[first_node_[lane] + replica].reduced);
    }
    std::int64_t first = 0;  // of two modules on a rank
    for (const int member : program_.first_steps())
      first = std::max(first, load_.fixed[member].count);
    for (const int member : program_.step().members) {
      const int lane = program_.lane_of(member);
      const std::int64_t before = program_.steps_second(member) ? first : 0;
      for (int replica = 0; replica < replicas_of(lane); ++replica) {
        const int index = first_node_[lane] + replica;
        nodes_[index].clock = step_.ready + before + load_.fixed[member].count;
        ++nodes_[index].next;
        ready_.push_back(index);
      }
    }
  }

  const StepProgram& program_;
  const ReplicaTimer& timer_;
  const ReplicaLoad& load_;
  std::vector<int> first_node_;  // [lanes]
  std::vector<Node> nodes_;      // [lanes, replicas]
  std::vector<Pair> pairs_;      // [modules, replicas, messages inside]
  std::vector<int> edge_of_;     // [messages] into edges_; -1: inside a module
  std::vector<Edge> edges_;
  std::vector<std::int64_t> times_;  // at which replicas came to edges
  std::vector<Meeting> reductions_;
  Meeting step_;
  std::vector<int> ready_;
};

}  // namespace

ReplicaTimer::ReplicaTimer(const StepProgram& program, const Network& network)
    : program_(program), network_(network) {
  TRIB_CHECK(network.is_unshared(), .what = "plan: shared network needs the event engine");
  microbatches_ = program.pipeline().microbatches;
  for (const schedule::PipelineModule& module : program.pipeline().modules) {
    TRIB_CHECK(module.replicas == 1, .what = "plan: program of more than one replica",
               .found = str(module.replicas));
    virtual_stages_.push_back(module.virtual_stages());
  }
  for (int lane = 0; lane < program.lanes(); ++lane)
    module_of_.push_back(program.map().at(lane).module);
  actions_.resize(static_cast<std::size_t>(program.actions()));
  for (int index = 0; index < program.actions(); ++index) {
    if (program.kind(index) != StepKind::kPass) continue;
    const schedule::Action& action = program.action(index);
    const schedule::Lane lane = program.map().at(program.lane_of(index));
    ActionPlace& place = actions_[index];
    place.place =
        program.map().virtual_stage(lane.module, lane.stage, action.chunk) * microbatches_ +
        action.microbatch;
    place.duration = action.op == Op::kForward          ? Duration::kForward
                     : action.op == Op::kBackward       ? Duration::kWhole
                     : action.op == Op::kBackwardWeight ? Duration::kWeight
                                                        : Duration::kInput;
  }
  place_messages();
}

/// As large as what the forward pass at the giver's end of the activation gives on.
void ReplicaTimer::place_messages() {
  messages_.resize(program_.messages().size());
  messages_inside_.assign(virtual_stages_.size(), 0);
  const schedule::PipelineMap& map = program_.map();
  for (std::size_t i = 0; i < messages_.size(); ++i) {
    const Message& message = program_.messages()[i];
    const Channel& channel = program_.channels()[message.channel];
    const bool is_gradient =
        channel.op == Op::kSendGradient || channel.op == Op::kSendFeatureGradients;
    const schedule::Lane giver = map.at(is_gradient ? channel.to : channel.from);
    const schedule::Action& at = program_.action(is_gradient ? message.receive : message.send);
    MessagePlace& place = messages_[i];
    place.module = giver.module;
    place.is_edge = channel.edge >= 0;
    place.is_mean = is_gradient && map.goes_in_one_batch(channel.edge);
    const int virtual_stage = place.is_edge
                                  ? virtual_stages_[giver.module] - 1
                                  : map.virtual_stage(giver.module, giver.stage, at.chunk);
    place.place = virtual_stage * microbatches_ + at.microbatch;
    place.from = channel.from;
    place.to = channel.to;
    place.first = channel.first_message;
    place.latency = network_.routes[message.channel].latency;
    place.bytes_per_ns = network_.routes[message.channel].bytes_per_ns;
    if (!place.is_edge) place.number = messages_inside_[giver.module]++;
  }
}

std::int64_t ReplicaTimer::boundary(const MessagePlace& of, const PassCosts* replica) const {
  if (!of.is_mean) return replica[of.place].boundary;
  std::int64_t all = 0;
  for (int i = 0; i < microbatches_; ++i) all += replica[i].boundary;
  return (all + microbatches_ - 1) / microbatches_;
}

Nanoseconds ReplicaTimer::run(const ReplicaLoad& load) const {
  return Run(program_, *this, load).makespan();
}

}  // namespace tributary::plan
