#include "plan/exact/replica_timer.h"

#include <algorithm>

#include "core/error.h"

namespace tributary::plan {
namespace {

using schedule::Op;

constexpr std::int64_t kUnknown = -1;

/// Follows every lane of every replica as far as it comes; what arrives wakes who waits for it.
class Run {
 public:
  Run(const StepProgram& program, const Network& network, const ReplicaTimer& timer,
      const ReplicaLoad& load)
      : program_(program), network_(network), timer_(timer), load_(load) {
    for (int lane = 0; lane < program.lanes(); ++lane) {
      first_node_.push_back(static_cast<int>(nodes_.size()));
      for (int replica = 0; replica < replicas_of(lane); ++replica)
        nodes_.push_back({.lane = lane, .replica = replica, .next = program.first_action(lane)});
    }
    lay_out_messages();
    reductions_.resize(program.reductions().size());
  }

  Nanoseconds makespan() {
    for (int node = static_cast<int>(nodes_.size()) - 1; node >= 0; --node) ready_.push_back(node);
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
  };
  /// One message; along an edge all of them from the replicas of one lane to those of another.
  struct MessageState {
    std::size_t given = 0;   // into times_, by giver
    std::size_t posted = 0;  // into times_, by taker
    int left_to_give = 0;    // of an edge
    int left_to_post = 0;
    std::int64_t last_given = 0;
    std::int64_t last_posted = 0;
    std::int64_t travel = 0;  // of an edge
  };
  struct Meeting {
    int arrived = 0;
    std::int64_t ready = 0;
    std::int64_t end = 0;
  };

  [[nodiscard]] int module_of(int lane) const { return timer_.module_of(lane); }
  [[nodiscard]] int replicas_of(int lane) const { return timer_.replicas()[module_of(lane)]; }
  [[nodiscard]] const Channel& channel_of(int message) const {
    return program_.channels()[program_.messages()[message].channel];
  }

  void lay_out_messages() {
    messages_.resize(program_.messages().size());
    std::size_t next = 0;
    for (std::size_t i = 0; i < messages_.size(); ++i) {
      const int index = static_cast<int>(i);
      const Channel& channel = channel_of(index);
      MessageState& message = messages_[i];
      message.given = next;
      next += replicas_of(channel.from);
      message.posted = next;
      next += replicas_of(channel.to);
      if (!timer_.of_message(index).is_edge) continue;
      message.left_to_give = replicas_of(channel.from);
      message.left_to_post = replicas_of(channel.to);
      std::int64_t largest = 0;
      const ReplicaTimer::MessagePlace& place = timer_.of_message(index);
      const std::vector<PassCosts>& passes = load_.passes[place.module];
      for (std::size_t at = place.place; at < passes.size();
           at += timer_.replica_size(place.module))
        largest = std::max(largest, passes[at].boundary);
      message.travel = travel(index, largest);
    }
    times_.assign(next, kUnknown);
  }

  [[nodiscard]] std::int64_t travel(int message, std::int64_t bytes) const {
    return travel_time(network_.routes[program_.messages()[message].channel], {bytes}).count;
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
          if (!wait_until(arrival_at_taker(message, node.replica), message, node)) return false;
        node.clock += duration_of(action, node.replica);
        return true;
      case StepKind::kSend:
        for (const int message : program_.messages_of(action)) {
          const int earlier = message - program_.send_buffers();
          if (earlier < channel_of(message).first_message) continue;
          if (!wait_until(arrival_of_giver(earlier, node.replica), earlier, node)) return false;
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

  [[nodiscard]] std::int64_t duration_of(int action, int replica) const {
    const ReplicaTimer::ActionPlace& of = timer_.of_action(action);
    const int module = module_of(program_.lane_of(action));
    const std::size_t at =
        static_cast<std::size_t>(replica) * timer_.replica_size(module) + of.place;
    const PassCosts& costs = load_.passes[module][at];
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

  /// When a replica that takes a message has it; unknown while a giver or its own buffer is
  /// missing.
  [[nodiscard]] std::int64_t arrival_at_taker(int message, int replica) const {
    const MessageState& state = messages_[message];
    const std::int64_t posted = times_[state.posted + replica];
    if (timer_.of_message(message).is_edge) {
      if (state.left_to_give > 0 || posted == kUnknown) return kUnknown;
      return std::max(state.last_given, posted) + state.travel;
    }
    return arrival(message, replica, posted);
  }
  /// When all that a replica gave has come where it goes.
  [[nodiscard]] std::int64_t arrival_of_giver(int message, int replica) const {
    const MessageState& state = messages_[message];
    if (!timer_.of_message(message).is_edge)
      return arrival(message, replica, times_[state.posted + replica]);
    if (state.left_to_post > 0) return kUnknown;
    return std::max(times_[state.given + replica], state.last_posted) + state.travel;
  }
  [[nodiscard]] std::int64_t arrival(int message, int replica, std::int64_t posted) const {
    const std::int64_t given = times_[messages_[message].given + replica];
    if (given == kUnknown || posted == kUnknown) return kUnknown;
    const ReplicaTimer::MessagePlace& place = timer_.of_message(message);
    const std::size_t at =
        static_cast<std::size_t>(replica) * timer_.replica_size(place.module) + place.place;
    return std::max(given, posted) + travel(message, load_.passes[place.module][at].boundary);
  }

  void give(int message, const Node& node) {
    MessageState& state = messages_[message];
    times_[state.given + node.replica] = node.clock;
    if (!timer_.of_message(message).is_edge) return wake_pair(message, node.replica);
    state.last_given = std::max(state.last_given, node.clock);
    if (--state.left_to_give == 0) wake_all(channel_of(message).to, message);
  }
  void post(int message, const Node& node) {
    MessageState& state = messages_[message];
    times_[state.posted + node.replica] = node.clock;
    if (!timer_.of_message(message).is_edge) return wake_pair(message, node.replica);
    state.last_posted = std::max(state.last_posted, node.clock);
    if (--state.left_to_post == 0) wake_all(channel_of(message).from, message);
  }
  void wake_pair(int message, int replica) {
    const Channel& channel = channel_of(message);
    wake(first_node_[channel.from] + replica, message);
    wake(first_node_[channel.to] + replica, message);
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
    met.end = std::max(met.ready, meeting.before >= 0 ? reductions_[meeting.before].end : 0);
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
    for (const int member : program_.step().members) {
      const int lane = program_.lane_of(member);
      for (int replica = 0; replica < replicas_of(lane); ++replica) {
        const int index = first_node_[lane] + replica;
        nodes_[index].clock = step_.ready + load_.fixed[member].count;
        ++nodes_[index].next;
        ready_.push_back(index);
      }
    }
  }

  const StepProgram& program_;
  const Network& network_;
  const ReplicaTimer& timer_;
  const ReplicaLoad& load_;
  std::vector<int> first_node_;  // [lanes]
  std::vector<Node> nodes_;      // [lanes, replicas]
  std::vector<MessageState> messages_;
  std::vector<std::int64_t> times_;
  std::vector<Meeting> reductions_;
  Meeting step_;
  std::vector<int> ready_;
};

}  // namespace

ReplicaTimer::ReplicaTimer(const StepProgram& program, const Network& network,
                           std::vector<int> replicas)
    : program_(program), network_(network), replicas_(std::move(replicas)) {
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
    const int virtual_stage = place.is_edge
                                  ? virtual_stages_[giver.module] - 1
                                  : map.virtual_stage(giver.module, giver.stage, at.chunk);
    place.place = virtual_stage * microbatches_ + at.microbatch;
  }
}

Nanoseconds ReplicaTimer::run(const ReplicaLoad& load) const {
  return Run(program_, network_, *this, load).makespan();
}

}  // namespace tributary::plan
