#include "simulate/program/step_chains.h"

#include <algorithm>
#include <utility>

namespace tributary::simulate {
namespace {

using schedule::Lane;

Nanoseconds longest_step(const StepProgram& program, const StepLoad& load) {
  const auto longest_of = [&](const std::vector<int>& members) {
    Nanoseconds longest;
    for (const int member : members) longest = std::max(longest, load.duration[member]);
    return longest;
  };
  Nanoseconds shared;
  for (const std::vector<int>& of_module : program.shared_steps()) shared += longest_of(of_module);
  return std::max(shared, longest_of(program.step().members));
}

}  // namespace

StepChains::StepChains(const StepProgram& program, const StepLoad& load, const Network& network,
                       const std::vector<bool>& ahead)
    : program_(program),
      load_(load),
      network_(network),
      ahead_(ahead),
      rate_alone_(rates_alone(network)),
      step_(longest_step(program, load)) {
  head_gate_.resize(static_cast<std::size_t>(program.lanes()), Nanoseconds{-1});
  tail_gate_ = head_gate_;
  for (int channel = 0; channel < std::ssize(program.channels()); ++channel)
    if (program.comes_in_whole_batches(program.channels()[channel])) batches_.push_back(channel);
  head_.resize(static_cast<std::size_t>(program.actions()));
  tail_.resize(static_cast<std::size_t>(program.actions()));
  order_passes();
  find_meetings();
  for (int lane = 0; lane < program.lanes(); ++lane) begin_tails(lane);
  for (const int pass : order_) spread_head(pass);
  for (auto pass = order_.rbegin(); pass != order_.rend(); ++pass) spread_tail(*pass);
  std::erase_if(order_, [this](int pass) { return is_ahead(program_.lane_of(pass)); });
}

void StepChains::find_meetings() {
  for (const StepMeeting& meeting : program_.reductions()) {
    Nanoseconds longest;
    for (const int member : meeting.members) longest = std::max(longest, load_.duration[member]);
    reduction_.push_back(longest);
    if (program_.map().is_colocated(program_.lane_of(meeting.members.front())))
      colocated_ += longest;
  }
}

/// Sets what follows a pass on its own lane: the reduction of its chunk (for the backbone also
/// those of a colocated module), then the step.
void StepChains::begin_tails(int lane) {
  const int begin = program_.first_action(lane);
  const int end = program_.first_action(lane + 1);
  const Lane of = program_.map().at(lane);
  const bool has_step = end > begin && program_.kind(end - 1) == StepKind::kOptimize;
  const Nanoseconds step = has_step ? step_ : Nanoseconds{};
  std::vector<Nanoseconds> behind(
      static_cast<std::size_t>(program_.pipeline().modules[of.module].chunks), step);
  const Nanoseconds beside = of.module == program_.map().flow().back() ? colocated_ : Nanoseconds{};
  for (int action = begin; action < end; ++action)
    if (program_.kind(action) == StepKind::kReduce)
      behind[program_.action(action).chunk] += beside + reduction_[program_.reduction_of(action)];
  for (int action = begin; action < end; ++action)
    if (program_.kind(action) == StepKind::kPass)
      tail_[action] = schedule::gives_weight_gradient(program_.action(action).op)
                          ? behind[program_.action(action).chunk]
                          : step;
}

/// Orders the passes: forwards along the flow of features, then backwards against it.
void StepChains::order_passes() {
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

/// Microbatches that a colocated module runs at once: the first forward does the work of all, and
/// the last backward, which waits for the gradients of all.
template <class Visit>
void StepChains::for_same_pass(int pass, const Visit& visit) const {
  const int lane = program_.lane_of(pass);
  if (!program_.map().is_colocated(lane)) return;
  const schedule::Action& action = program_.action(pass);
  const schedule::Pipeline& pipeline = program_.pipeline();
  const schedule::PassGroups groups =
      pipeline.modules[program_.map().at(lane).module].groups_of(pipeline.microbatches);
  const std::int64_t group = groups.pass_of(action.microbatch);
  const auto first = static_cast<int>(groups.first_of(group));
  const auto last = static_cast<int>(groups.first_of(group + 1)) - 1;
  const auto see = [&](StepProgram::Pass kind, int microbatch) {
    const int other = program_.pass_at(lane, kind, action.chunk, microbatch);
    if (other >= 0 && other != pass) visit(other, Nanoseconds{});
  };
  if (action.op == schedule::Op::kForward) return see(StepProgram::Pass::kForward, first);
  for (int i = first; action.microbatch == last && i < last; ++i)
    see(StepProgram::Pass::kInputGradient, i);
}

/// Calls visit(pass before, time between) for each pass that a pass depends on.
template <class Visit>
void StepChains::for_needs(int pass, const Visit& visit) const {
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
  for_same_pass(pass, visit);
  const schedule::PipelineMap& map = program_.map();
  const Lane of = map.at(lane);
  const int before = map.virtual_stage(of.module, of.stage, action.chunk) + (forward ? -1 : 1);
  if (before >= 0 && before < program_.pipeline().modules[of.module].virtual_stages() &&
      map.position_of(of.module, before).stage == of.stage)
    here(kind, map.position_of(of.module, before).chunk);
  for (const int message : program_.messages_of(pass)) {
    if (program_.messages()[message].send < 0) continue;
    if (program_.channel_of(message).op == schedule::Op::kSendTurn) continue;  // of this order only
    const int far = giver_of(message);
    if (far >= 0) visit(far, travel(message));
  }
}

int StepChains::giver_of(int message) const {
  const int send = program_.messages()[message].send;
  const schedule::Action& of = program_.action(send);
  const bool forward =
      of.op == schedule::Op::kSendActivation || of.op == schedule::Op::kSendFeatures;
  return program_.pass_at(program_.lane_of(send),
                          forward ? StepProgram::Pass::kForward : StepProgram::Pass::kInputGradient,
                          of.chunk, of.microbatch);
}

Nanoseconds StepChains::travel(int message) const {
  const int channel = program_.messages()[message].channel;
  return travel_time(network_.routes[channel].latency, rate_alone_[channel],
                     load_.bytes_of(program_, message));
}

Nanoseconds StepChains::min_travel(int channel) const {
  const Channel& of = program_.channels()[channel];
  Nanoseconds min = kUnbounded;
  for (int i = 0; i < of.messages; ++i) min = std::min(min, travel(of.first_message + i));
  return min;
}

/// Time of a lane's forwards, or backwards, plus the min of `beyond` before, or after, them.
Nanoseconds StepChains::work_with(int lane, bool forward,
                                  const std::vector<Nanoseconds>& beyond) const {
  Nanoseconds work;
  Nanoseconds min = kUnbounded;
  for (int action = program_.first_action(lane); action < program_.first_action(lane + 1);
       ++action) {
    if (program_.kind(action) != StepKind::kPass) continue;
    if ((program_.action(action).op == schedule::Op::kForward) != forward) continue;
    work += load_.duration[action];
    min = std::min(min, beyond[action]);
  }
  return work + min;
}

/// Lower bound at an edge that carries one batch. A receiving lane starts after all forwards of the
/// sending lanes; a sending lane ends before all backwards of the receiving lanes.
Nanoseconds StepChains::gate(int lane, bool forward) {
  Nanoseconds& gate = (forward ? head_gate_ : tail_gate_)[lane];
  if (gate.count >= 0) return gate;
  gate = {};
  const schedule::Op op =
      forward ? schedule::Op::kSendFeatures : schedule::Op::kSendFeatureGradients;
  for (const int channel : batches_) {
    const Channel& of = program_.channels()[channel];
    const auto [own, other] = forward ? std::pair(of.to, of.from) : std::pair(of.from, of.to);
    if (own != lane || of.op != op || (forward && is_ahead(other))) continue;
    gate = std::max(gate, work_with(other, forward, forward ? head_ : tail_) + min_travel(channel));
  }
  return gate;
}

/// Whether a pass is at the backbone's end of such an edge.
bool StepChains::is_gated(int pass, bool forward) const {
  if (batches_.empty()) return false;
  const schedule::Action& action = program_.action(pass);
  const bool fits =
      forward ? action.op == schedule::Op::kForward : schedule::gives_input_gradient(action.op);
  const Lane of = program_.map().at(program_.lane_of(pass));
  return fits && of.module == program_.map().flow().back() &&
         program_.map().virtual_stage(of.module, of.stage, action.chunk) == 0;
}

void StepChains::spread_head(int pass) {
  if (is_gated(pass, true)) head_[pass] = std::max(head_[pass], gate(program_.lane_of(pass), true));
  for_needs(pass, [&](int before, Nanoseconds between) {
    if (is_ahead(program_.lane_of(before))) return;
    head_[pass] = std::max(head_[pass], head_[before] + load_.duration[before] + between);
  });
}

void StepChains::spread_tail(int pass) {
  if (is_gated(pass, false))
    tail_[pass] = std::max(tail_[pass], gate(program_.lane_of(pass), false));
  for_needs(pass, [&](int before, Nanoseconds between) {
    tail_[before] = std::max(tail_[before], between + load_.duration[pass] + tail_[pass]);
  });
}

}  // namespace tributary::simulate
