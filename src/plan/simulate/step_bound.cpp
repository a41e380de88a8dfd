#include "plan/simulate/step_bound.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace tributary::plan {
namespace {

using schedule::Lane;

/// Longest chains before and after each pass, by what it needs alone.
class Chains {
 public:
  Chains(const StepProgram& program, const StepLoad& load, const Network& network)
      : program_(program), load_(load), network_(network), rate_alone_(rates_alone(network)) {
    order_passes();
    head_gate_.resize(static_cast<std::size_t>(program.lanes()), Nanoseconds{-1});
    tail_gate_ = head_gate_;
    for (int channel = 0; channel < std::ssize(program.channels()); ++channel)
      if (program.map().goes_in_one_batch(program.channels()[channel].edge))
        batches_.push_back(channel);
    head_.resize(static_cast<std::size_t>(program.actions()));
    tail_.resize(static_cast<std::size_t>(program.actions()));
    for (const int pass : order_) spread_head(pass);
    for (auto pass = order_.rbegin(); pass != order_.rend(); ++pass) spread_tail(*pass);
  }

  [[nodiscard]] Nanoseconds longest_path() const {
    Nanoseconds longest;
    for (const int pass : order_)
      longest = std::max(longest, head_[pass] + load_.duration[pass] + tail_[pass]);
    return longest;
  }

  /// 0 for a lane without passes.
  [[nodiscard]] Nanoseconds work_of(int lane) const {
    Nanoseconds head{std::numeric_limits<std::int64_t>::max()};
    Nanoseconds tail = head;
    Nanoseconds work;
    for (int action = program_.first_action(lane); action < program_.first_action(lane + 1);
         ++action) {
      if (program_.kind(action) != StepKind::kPass) continue;
      head = std::min(head, head_[action]);
      tail = std::min(tail, tail_[action]);
      work += load_.duration[action];
    }
    return work == Nanoseconds{} ? work : head + work + tail;
  }

 private:
  /// Forwards along the flow of features, then backwards against it.
  void order_passes() {
    const schedule::PipelineMap& map = program_.map();
    const auto add = [this](int lane, StepProgram::Pass pass, int chunk) {
      for (int microbatch = 0; microbatch < program_.pipeline().microbatches; ++microbatch) {
        const int action = program_.pass_at(lane, pass, chunk, microbatch);
        if (action >= 0) order_.push_back(action);
      }
    };
    const auto for_lanes = [&](int module, int virtual_stage, const auto& visit) {
      const auto [stage, chunk] = map.position_of(module, virtual_stage);
      for (int replica = 0; replica < program_.pipeline().modules[module].replicas; ++replica)
        visit(map.lane_of({module, replica, stage}), chunk);
    };
    for (const int module : map.flow())
      for (int at = 0; at < program_.pipeline().modules[module].virtual_stages(); ++at)
        for_lanes(module, at,
                  [&](int lane, int chunk) { add(lane, StepProgram::Pass::kForward, chunk); });
    for (auto module = map.flow().rbegin(); module != map.flow().rend(); ++module)
      for (int at = program_.pipeline().modules[*module].virtual_stages() - 1; at >= 0; --at)
        for_lanes(*module, at, [&](int lane, int chunk) {
          add(lane, StepProgram::Pass::kInputGradient, chunk);
          add(lane, StepProgram::Pass::kWeightGradient, chunk);
        });
  }

  /// Calls visit(pass before, time between) for all that a pass needs.
  template <class Visit>
  void for_needs(int pass, const Visit& visit) const {
    const schedule::Action& action = program_.action(pass);
    const int lane = program_.lane_of(pass);
    const auto here = [&](StepProgram::Pass kind, int chunk) {
      const int before = program_.pass_at(lane, kind, chunk, action.microbatch);
      if (before >= 0) visit(before, Nanoseconds{});
    };
    if (action.op == schedule::Op::kBackwardWeight)
      return here(StepProgram::Pass::kInputGradient, action.chunk);
    const bool forward = action.op == schedule::Op::kForward;
    const auto kind = forward ? StepProgram::Pass::kForward : StepProgram::Pass::kInputGradient;
    if (!forward) here(StepProgram::Pass::kForward, action.chunk);
    const schedule::PipelineMap& map = program_.map();
    const Lane of = map.at(lane);
    const int before = map.virtual_stage(of.module, of.stage, action.chunk) + (forward ? -1 : 1);
    if (before >= 0 && before < program_.pipeline().modules[of.module].virtual_stages() &&
        map.position_of(of.module, before).stage == of.stage)
      here(kind, map.position_of(of.module, before).chunk);
    for (const int message : program_.messages_of(pass)) {
      const int send = program_.messages()[message].send;
      if (send < 0) continue;
      const schedule::Action& sent = program_.action(send);
      const int far = program_.pass_at(program_.lane_of(send), kind, sent.chunk, sent.microbatch);
      if (far >= 0) visit(far, travel(message));
    }
  }

  [[nodiscard]] Nanoseconds travel(int message) const {
    const int channel = program_.messages()[message].channel;
    return travel_time(network_.routes[channel].latency, rate_alone_[channel],
                       load_.bytes_of(program_, message));
  }
  [[nodiscard]] Nanoseconds least_travel(int channel) const {
    const Channel& of = program_.channels()[channel];
    Nanoseconds least{std::numeric_limits<std::int64_t>::max()};
    for (int i = 0; i < of.messages; ++i) least = std::min(least, travel(of.first_message + i));
    return least;
  }
  /// Time of the forwards, or of the backwards, of a lane; `beyond` is before or after them.
  [[nodiscard]] Nanoseconds work_with(int lane, bool forward,
                                      const std::vector<Nanoseconds>& beyond) const {
    Nanoseconds work;
    Nanoseconds least{std::numeric_limits<std::int64_t>::max()};
    for (int action = program_.first_action(lane); action < program_.first_action(lane + 1);
         ++action) {
      if (program_.kind(action) != StepKind::kPass) continue;
      if ((program_.action(action).op == schedule::Op::kForward) != forward) continue;
      work += load_.duration[action];
      least = std::min(least, beyond[action]);
    }
    return work + least;
  }
  /// A lane that takes what goes in one batch has all forwards of the lanes that give it before
  /// its first, and one that gives has all backwards of those that take it behind its last.
  Nanoseconds gate(int lane, bool forward) {
    Nanoseconds& gate = (forward ? head_gate_ : tail_gate_)[lane];
    if (gate.count >= 0) return gate;
    gate = {};
    const schedule::Op op =
        forward ? schedule::Op::kSendFeatures : schedule::Op::kSendFeatureGradients;
    for (const int channel : batches_) {
      const Channel& of = program_.channels()[channel];
      const auto [own, other] = forward ? std::pair(of.to, of.from) : std::pair(of.from, of.to);
      if (own != lane || of.op != op) continue;
      gate = std::max(gate,
                      work_with(other, forward, forward ? head_ : tail_) + least_travel(channel));
    }
    return gate;
  }
  /// Passes at the backbone's end of the edges go through the gates.
  [[nodiscard]] bool is_gated(int pass, bool forward) const {
    if (batches_.empty()) return false;
    const schedule::Action& action = program_.action(pass);
    const bool fits =
        forward ? action.op == schedule::Op::kForward : schedule::gives_input_gradient(action.op);
    const Lane of = program_.map().at(program_.lane_of(pass));
    return fits && of.module == program_.map().flow().back() &&
           program_.map().virtual_stage(of.module, of.stage, action.chunk) == 0;
  }
  void spread_head(int pass) {
    if (is_gated(pass, true))
      head_[pass] = std::max(head_[pass], gate(program_.lane_of(pass), true));
    for_needs(pass, [&](int before, Nanoseconds between) {
      head_[pass] = std::max(head_[pass], head_[before] + load_.duration[before] + between);
    });
  }
  void spread_tail(int pass) {
    if (is_gated(pass, false))
      tail_[pass] = std::max(tail_[pass], gate(program_.lane_of(pass), false));
    for_needs(pass, [&](int before, Nanoseconds between) {
      tail_[before] = std::max(tail_[before], between + load_.duration[pass] + tail_[pass]);
    });
  }

  const StepProgram& program_;
  const StepLoad& load_;
  const Network& network_;
  std::vector<double> rate_alone_;  // [channels]
  std::vector<int> order_;
  std::vector<Nanoseconds> head_;
  std::vector<Nanoseconds> tail_;
  std::vector<int> batches_;            // channels
  std::vector<Nanoseconds> head_gate_;  // [lanes] found when first asked for; -1: not yet
  std::vector<Nanoseconds> tail_gate_;  // [lanes]
};

/// Nothing of a lane's step begins before all passes are done, on any lane that has a step.
Nanoseconds longest_step(const StepProgram& program, const StepLoad& load) {
  Nanoseconds first;
  for (const int member : program.first_steps()) first = std::max(first, load.duration[member]);
  Nanoseconds longest = first;
  for (const int member : program.step().members)
    longest = std::max(
        longest, load.duration[member] + (program.steps_second(member) ? first : Nanoseconds{}));
  return longest;
}

Nanoseconds busiest_link(const StepProgram& program, const StepLoad& load, const Network& network) {
  std::vector<double> bytes(network.bytes_per_ns.size(), 0);
  for (std::size_t message = 0; message < program.messages().size(); ++message) {
    const int index = static_cast<int>(message);
    const Bytes size = load.bytes_of(program, index);
    for (const LinkUse& use : network.routes[program.messages()[message].channel].links)
      bytes[use.link] += use.weight * static_cast<double>(size.count);
  }
  double longest = 0;
  for (std::size_t link = 0; link < bytes.size(); ++link)
    longest = std::max(longest, bytes[link] / network.bytes_per_ns[link]);
  return {static_cast<std::int64_t>(longest * (1 - 1e-9))};  // never above by rounding
}

}  // namespace

StepBound bound_step(const StepProgram& program, const StepLoad& load, const Network& network) {
  check_load(program, load, network);
  const Chains chains(program, load, network);
  std::vector<bool> steps(static_cast<std::size_t>(program.lanes()), false);
  for (const int member : program.step().members) steps[program.lane_of(member)] = true;
  const Nanoseconds step = longest_step(program, load);
  StepBound bound{
      .work = {}, .path = chains.longest_path(), .link = busiest_link(program, load, network)};
  for (int lane = 0; lane < program.lanes(); ++lane)
    bound.work = std::max(bound.work, chains.work_of(lane) + (steps[lane] ? step : Nanoseconds{}));
  return bound;
}

}  // namespace tributary::plan
