#include "plan/judge/replica_timer.h"

#include <algorithm>

#include "core/error.h"
#include "plan/judge/action_order.h"

namespace tributary::plan {
namespace {

using schedule::Op;

/// Times every action for all replicas, in an order that does not depend on times.
class Run {
 public:
  Run(const simulate::StepProgram& program, const ReplicaTimer& timer, const ReplicaLoad& load,
      std::vector<std::int64_t>& times)
      : program_(program), timer_(timer), load_(load), times_(times) {
    std::size_t max = 1;
    for (const ModulePasses& module : load.modules) max = std::max(max, module.replicas());
    times.assign(max * static_cast<std::size_t>(program.lanes() + timer.slots()), 0);
    room_ = max;
    std::size_t clock = room_ * static_cast<std::size_t>(timer.slots());
    for (int lane = 0; lane < program.lanes(); ++lane, clock += room_)
      lanes_.push_back({.module = &load.modules[timer.module_of(lane)], .clock = clock});
    lay_out_edges();
    has_begun_.resize(program.messages().size());
    reductions_.resize(program.reductions().size());
  }

  Nanoseconds makespan() {
    for (const int action : timer_.order()) perform(action);
    hold_reductions();
    hold_step();
    std::int64_t latest = 0;
    for (const Lane& lane : lanes_) latest = std::max({latest, latest_of(lane), lane.reduced});
    return {latest};
  }

 private:
  struct Lane {
    const ModulePasses* module = nullptr;
    std::size_t clock = 0;  // into times_: [replicas]
    std::int64_t reduced = 0;
  };
  /// One message from all replicas to all: each receiver has it once all have sent and it has
  /// posted. Inside a module each replica has a message of its own.
  struct Edge {
    std::int64_t last_given = 0;
    std::int64_t last_posted = 0;
    std::int64_t travel = 0;
  };
  struct Reduction {
    std::int64_t ready = 0;  // when the last member is ready
    std::int64_t end = 0;
  };

  void lay_out_edges() {
    edges_.resize(static_cast<std::size_t>(timer_.edges()));
    if (edges_.empty()) return;
    for (int i = 0; i < std::ssize(program_.messages()); ++i) {
      const ReplicaTimer::MessagePlace& place = timer_.of_message(i);
      if (place.edge < 0 || place.is_turn) continue;
      const ModulePasses& module = load_.modules[place.module];
      std::int64_t largest = 0;
      for (std::size_t replica = 0; replica < module.replicas(); ++replica)
        largest = std::max(largest, ReplicaTimer::boundary(place, module, replica));
      edges_[place.edge].travel = simulate::travel_time(timer_.route_of(place), {largest}).count;
    }
  }

  /// Times [replicas] when the sender was ready, and along an edge also when the receiver was.
  /// Inside a module both ends have the same replicas, so one list is enough.
  [[nodiscard]] std::int64_t* given(const ReplicaTimer::MessagePlace& place) {
    return &times_[room_ * static_cast<std::size_t>(place.slot)];
  }
  [[nodiscard]] std::int64_t* posted(const ReplicaTimer::MessagePlace& place) {
    return given(place) + room_;
  }

  void perform(int action) {
    Lane& lane = lanes_[program_.lane_of(action)];
    switch (program_.kind(action)) {
      case simulate::StepKind::kPass:
        for (const int message : program_.messages_of(action)) take(message, lane);
        pass(timer_.of_pass(action), lane);
        break;
      case simulate::StepKind::kSend:
        for (const int message : program_.messages_of(action)) {
          const int before = timer_.of_message(message).before;
          if (before >= 0) get_buffer_of(before, lane);
        }
        for (const int message : program_.messages_of(action)) give(message, lane);
        break;
      case simulate::StepKind::kReceive:
        for (const int message : program_.messages_of(action)) post(message, lane);
        break;
      case simulate::StepKind::kReduce:
        join(reductions_[program_.reduction_of(action)], lane);
        break;
      case simulate::StepKind::kOptimize:  // once all lanes are there
      case simulate::StepKind::kHand:
        break;
    }
  }

  void pass(const ReplicaTimer::PassPlace& place, const Lane& lane) {
    const ModulePasses::OfReplicas of = lane.module->at(place.virtual_stage, place.microbatch);
    std::int64_t* clock = &times_[lane.clock];
    const auto add = [&](auto duration) {
      for (std::size_t i = 0; i < lane.module->replicas(); ++i) clock[i] += duration(of[i].costs);
    };
    switch (place.duration) {
      case ReplicaTimer::Duration::kForward:
        return add([](const PassCosts& costs) { return costs.forward; });
      case ReplicaTimer::Duration::kInput:
        return add([](const PassCosts& costs) { return costs.input_gradient; });
      case ReplicaTimer::Duration::kWeight:
        return add([](const PassCosts& costs) { return costs.weight_gradient; });
      case ReplicaTimer::Duration::kWhole:
        return add([](const PassCosts& costs) { return costs.backward(); });
    }
  }

  /// Waits until the message that the lane reads has arrived.
  void take(int message, const Lane& lane) {
    const ReplicaTimer::MessagePlace& place = timer_.of_message(message);
    if (place.edge < 0) return wait(given(place), {}, lane);
    const Edge& edge = edges_[place.edge];
    wait(posted(place), {.last_given = edge.last_given, .travel = edge.travel}, lane);
  }
  /// Waits until the lane's earlier message has arrived, which frees its send buffer.
  void get_buffer_of(int message, const Lane& lane) {
    const ReplicaTimer::MessagePlace& place = timer_.of_message(message);
    if (place.edge < 0) return wait(given(place), {}, lane);
    const Edge& edge = edges_[place.edge];
    wait(given(place), {.last_posted = edge.last_posted, .travel = edge.travel}, lane);
  }
  /// times: [replicas of the lane] of this end
  void wait(const std::int64_t* times, const Edge& other, const Lane& lane) {
    const std::int64_t other_end = std::max(other.last_given, other.last_posted);
    std::int64_t* clock = &times_[lane.clock];
    for (std::size_t i = 0; i < lane.module->replicas(); ++i)
      clock[i] = std::max(clock[i], std::max(times[i], other_end) + other.travel);
  }

  void give(int message, const Lane& lane) {
    const ReplicaTimer::MessagePlace& place = timer_.of_message(message);
    if (place.edge < 0) return meet(message, place, lane);
    edges_[place.edge].last_given = note(given(place), lane);
  }
  void post(int message, const Lane& lane) {
    const ReplicaTimer::MessagePlace& place = timer_.of_message(message);
    if (place.edge < 0) return meet(message, place, lane);
    edges_[place.edge].last_posted = note(posted(place), lane);
  }
  /// Notes the lane's times; returns the latest.
  std::int64_t note(std::int64_t* times, const Lane& lane) const {
    std::copy_n(&times_[lane.clock], lane.module->replicas(), times);
    return latest_of(lane);
  }
  /// Whichever end is ready second starts the transfer.
  void meet(int message, const ReplicaTimer::MessagePlace& place, const Lane& lane) {
    std::int64_t* times = given(place);
    const std::int64_t* clock = &times_[lane.clock];
    if (!has_begun_[message]) {
      std::copy_n(clock, lane.module->replicas(), times);
      has_begun_[message] = true;
      return;
    }
    const simulate::Route& route = timer_.route_of(place);
    for (std::size_t i = 0; i < lane.module->replicas(); ++i)
      times[i] =
          std::max(times[i], clock[i]) +
          simulate::travel_time(route, {ReplicaTimer::boundary(place, *lane.module, i)}).count;
  }

  [[nodiscard]] std::int64_t latest_of(const Lane& lane) const {
    const std::int64_t* clock = &times_[lane.clock];
    return *std::max_element(clock, clock + lane.module->replicas());
  }

  void join(Reduction& reduction, const Lane& lane) const {
    reduction.ready = std::max(reduction.ready, latest_of(lane));
  }
  /// Reductions hold up no lane, only one another: those in `before` have lower numbers.
  void hold_reductions() {
    for (std::size_t i = 0; i < reductions_.size(); ++i) {
      const simulate::StepMeeting& meeting = program_.reductions()[i];
      Reduction& reduction = reductions_[i];
      reduction.end = reduction.ready;
      for (const int before : meeting.before)
        reduction.end = std::max(reduction.end, reductions_[before].end);
      reduction.end += longest(meeting.members);
      for (const int member : meeting.members) {
        std::int64_t& reduced = lanes_[program_.lane_of(member)].reduced;
        reduced = std::max(reduced, reduction.end);
      }
    }
  }

  void hold_step() {
    const std::vector<int>& members = program_.step().members;
    std::int64_t ready = 0;
    for (const int member : members) {
      const Lane& lane = lanes_[program_.lane_of(member)];
      ready = std::max({ready, latest_of(lane), lane.reduced});
    }
    const auto begin_at = [&](std::int64_t start, int member) {
      const Lane& lane = lanes_[program_.lane_of(member)];
      std::fill_n(&times_[lane.clock], lane.module->replicas(), start + load_.fixed[member].count);
    };
    for (const int member : members) begin_at(ready, member);
    for (const std::vector<int>& of_module : program_.shared_steps()) {
      for (const int member : of_module) begin_at(ready, member);
      ready += longest(of_module);
    }
  }

  template <class Actions>
  [[nodiscard]] std::int64_t longest(const Actions& actions) const {
    std::int64_t max = 0;
    for (const int action : actions) max = std::max(max, load_.fixed[action].count);
    return max;
  }

  const simulate::StepProgram& program_;
  const ReplicaTimer& timer_;
  const ReplicaLoad& load_;
  std::vector<std::int64_t>& times_;  // [slots, lanes][room for replicas]
  std::size_t room_ = 1;
  std::vector<Lane> lanes_;
  std::vector<Edge> edges_;
  std::vector<char> has_begun_;  // [messages] one end is ready
  std::vector<Reduction> reductions_;
};

}  // namespace

ReplicaTimer::ReplicaTimer(const simulate::StepProgram& program, const simulate::Network& network)
    : program_(program), network_(network), order_(order_actions(program)) {
  TRIB_CHECK(network.is_unshared(), .what = "plan: shared network needs the event engine");
  for (const schedule::PipelineModule& module : program.pipeline().modules)
    TRIB_CHECK(module.replicas == 1, .what = "plan: program of more than one replica",
               .found = str(module.replicas));
  for (int lane = 0; lane < program.lanes(); ++lane)
    module_of_.push_back(program.map().at(lane).module);
  place_passes();
  place_messages();
  assign_slots();
}

void ReplicaTimer::place_passes() {
  passes_.resize(static_cast<std::size_t>(program_.actions()));
  for (int index = 0; index < program_.actions(); ++index) {
    if (program_.kind(index) != simulate::StepKind::kPass) continue;
    const schedule::Action& action = program_.action(index);
    const schedule::Lane lane = program_.map().at(program_.lane_of(index));
    passes_[index] = {
        .duration = action.op == Op::kForward          ? Duration::kForward
                    : action.op == Op::kBackward       ? Duration::kWhole
                    : action.op == Op::kBackwardWeight ? Duration::kWeight
                                                       : Duration::kInput,
        .virtual_stage = program_.map().virtual_stage(lane.module, lane.stage, action.chunk),
        .microbatch = action.microbatch};
  }
}

/// A message is as large as the output of the forward pass at the sending end of its activation.
void ReplicaTimer::place_messages() {
  messages_.resize(program_.messages().size());
  const schedule::PipelineMap& map = program_.map();
  for (std::size_t i = 0; i < messages_.size(); ++i) {
    const simulate::Message& message = program_.messages()[i];
    const simulate::Channel& channel = program_.channels()[message.channel];
    const bool is_gradient =
        channel.op == Op::kSendGradient || channel.op == Op::kSendFeatureGradients;
    const schedule::Lane giver = map.at(is_gradient ? channel.to : channel.from);
    const schedule::Action& at = program_.action(is_gradient ? message.receive : message.send);
    const bool is_turn = channel.op == Op::kSendTurn;
    const bool is_edge = channel.edge >= 0 || is_turn;
    messages_[i] = {
        .module = giver.module,
        .virtual_stage = is_edge ? program_.pipeline().modules[giver.module].virtual_stages() - 1
                                 : map.virtual_stage(giver.module, giver.stage, at.chunk),
        .microbatch = at.microbatch,
        .channel = message.channel,
        .before = program_.earlier(static_cast<int>(i), channel.send_buffers),
        .edge = is_edge ? edges_++ : -1,
        .is_mean = is_gradient && map.goes_in_one_batch(channel.edge),
        .is_turn = is_turn};
  }
}

/// A message takes the slot of an earlier one whose times are no longer needed.
void ReplicaTimer::assign_slots() {
  std::vector<int> uses(messages_.size());
  const auto visit = [&](const auto& open, const auto& use) {
    for (const int action : order_) {
      const simulate::StepKind kind = program_.kind(action);
      for (const int message : program_.messages_of(action)) {
        const int used = kind == simulate::StepKind::kPass ? message : messages_[message].before;
        if (kind != simulate::StepKind::kReceive && used >= 0) use(used);
      }
      if (kind == simulate::StepKind::kPass) continue;
      for (const int message : program_.messages_of(action)) open(messages_[message]);
    }
  };
  visit([](const MessagePlace&) {}, [&](int message) { ++uses[message]; });
  std::vector<int> free;
  visit(
      [&](MessagePlace& message) {
        if (message.slot >= 0) return;
        const bool takes_two = message.edge >= 0;
        if (free.empty() || takes_two) {
          message.slot = slots_;
          slots_ += takes_two ? 2 : 1;
        } else {
          message.slot = free.back();
          free.pop_back();
        }
      },
      [&](int message) {
        if (--uses[message] == 0 && messages_[message].edge < 0)
          free.push_back(messages_[message].slot);
      });
}

Nanoseconds ReplicaTimer::run(const ReplicaLoad& load, std::vector<std::int64_t>& times) const {
  return Run(program_, *this, load, times).makespan();
}

}  // namespace tributary::plan
