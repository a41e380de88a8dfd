#include "plan/simulate/engine/run_ahead.h"

#include <algorithm>

namespace tributary::plan {
namespace {

using LaneTimes = std::vector<Nanoseconds>;

bool may_run_ahead(const config::ModulePlan& module) {
  return module.placement == config::Placement::kFlow && module.train == config::TrainMode::kFrozen;
}

/// Nothing but forward passes: no gradient comes to a module that only frozen ones feed.
bool only_encodes(const StepProgram& program, int lane) {
  for (int action = program.first_action(lane); action < program.first_action(lane + 1); ++action) {
    const StepKind kind = program.kind(action);
    const bool goes_back =
        kind == StepKind::kPass && program.action(action).op != schedule::Op::kForward;
    if (goes_back || kind == StepKind::kReduce || kind == StepKind::kOptimize) return false;
  }
  return true;
}

std::tuple<int, int, int> key_of(const Channel& channel) {
  return {channel.from, channel.to, channel.edge};
}

/// Moves the clock to where the step begins.
void begin_at(Nanoseconds begin, StepTimes& times) {
  const auto move = [begin](Nanoseconds& time) {
    if (time != kNever) time = std::max(Nanoseconds{}, time - begin);
  };
  for (ActionTimes& action : times.actions) {
    move(action.reached);
    move(action.start);
    move(action.end);
  }
  for (MessageTimes& message : times.messages) {
    move(message.given);
    move(message.posted);
    move(message.arrived);
    move(message.taken);
  }
  move(times.makespan);
}

}  // namespace

bool RunAhead::has_any(const config::Plan& plan) {
  return std::any_of(plan.modules.begin(), plan.modules.end(), may_run_ahead);
}

RunAhead::RunAhead(const config::Plan& plan, const StepProgram& program, const Network& network)
    : program_(program), network_(network) {
  for (int lane = 0; lane < program.lanes(); ++lane) {
    const int module = program.map().at(lane).module;
    is_ahead_.push_back(may_run_ahead(*plan.find(program.pipeline().modules[module].name)) &&
                        only_encodes(program, lane));
  }
}

bool RunAhead::feeds_pool(int channel) const {
  return network_.routes[channel].capacity > 0 && is_ahead_[program_.channels()[channel].from];
}

StepTimes RunAhead::time(StepLoad& load, Left& left) const {
  Nanoseconds begin;
  for (const auto& [lane, free] : left.lanes) begin = std::max(begin, Nanoseconds{} - free);
  load.begins.assign(static_cast<std::size_t>(program_.lanes()), begin);
  for (const auto& [lane, free] : left.lanes) load.begins[lane] = begin + free;
  load.vacant.assign(program_.messages().size(), {});
  for (int index = 0; index < std::ssize(program_.channels()); ++index) {
    const Channel& channel = program_.channels()[index];
    const auto found = left.taken.find(key_of(channel));
    if (found == left.taken.end()) continue;
    // The first messages get the places of the last ones of the steps before.
    const std::ptrdiff_t never_used = network_.routes[index].capacity - std::ssize(found->second);
    for (std::ptrdiff_t i = 0; i < std::ssize(found->second); ++i)
      if (never_used + i < channel.messages)
        load.vacant[channel.first_message + never_used + i] = begin + found->second[i];
  }
  StepTimes times = time_step(program_, load, network_);
  if (!times.blocked.empty()) return times;
  const Nanoseconds end = times.makespan;
  for (auto& [key, taken] : left.taken)
    for (Nanoseconds& each : taken) each += begin - end;
  for (int lane = 0; lane < program_.lanes(); ++lane)
    if (is_ahead_[lane] && program_.first_action(lane + 1) > program_.first_action(lane))
      left.lanes[lane] = times.actions[program_.first_action(lane + 1) - 1].end - end;
  for (int index = 0; index < std::ssize(program_.channels()); ++index) {
    if (!feeds_pool(index)) continue;
    const Channel& channel = program_.channels()[index];
    LaneTimes& taken = left.taken[key_of(channel)];
    for (int message = 0; message < channel.messages; ++message)
      taken.push_back(times.messages[channel.first_message + message].taken - end);
    const std::ptrdiff_t too_many = std::ssize(taken) - network_.routes[index].capacity;
    if (too_many > 0) taken.erase(taken.begin(), taken.begin() + too_many);
  }
  begin_at(begin, times);
  return times;
}

void RunAhead::account(const StepLoad& load, const StepTimes& times,
                       std::vector<LaneAccount>& accounts) const {
  for (int lane = 0; lane < program_.lanes(); ++lane) {
    if (!is_ahead_[lane]) continue;
    Nanoseconds computed;
    Nanoseconds communicated;
    for (int action = program_.first_action(lane); action < program_.first_action(lane + 1);
         ++action) {
      if (program_.kind(action) != StepKind::kPass) continue;
      const Nanoseconds seen = times.actions[action].end - times.actions[action].start;
      const Nanoseconds before = std::max(load.duration[action] - seen, Nanoseconds{});
      const Nanoseconds exposed = load.exposed.empty() ? Nanoseconds{} : load.exposed[action];
      // What account_lanes has not seen of it.
      const Nanoseconds of_it = std::min(before, exposed - std::min(exposed, seen));
      communicated += of_it;
      computed += before - of_it;
    }
    const auto move = [&account = accounts[lane]](Nanoseconds time, TimeUse use) {
      const Nanoseconds moved = std::min(time, account[TimeUse::kDone]);
      account[use] += moved;
      account[TimeUse::kDone] -= moved;
    };
    move(computed, TimeUse::kCompute);
    move(communicated, TimeUse::kCollective);
  }
}

StepBound RunAhead::bound(const StepLoad& load, bool equal) const {
  StepBound bound = {};
  Nanoseconds step;
  for (const int member : program_.step().members) step = std::max(step, load.duration[member]);
  for (int lane = 0; lane < program_.lanes(); ++lane) {
    if (is_ahead_[lane] && !equal) continue;
    Nanoseconds work;
    for (int action = program_.first_action(lane); action < program_.first_action(lane + 1);
         ++action) {
      if (program_.kind(action) == StepKind::kPass) work += load.duration[action];
      if (program_.kind(action) == StepKind::kOptimize) work += step;
    }
    bound.work = std::max(bound.work, work);
  }
  std::vector<double> bytes(network_.bytes_per_ns.size(), 0);
  for (int message = 0; message < std::ssize(program_.messages()); ++message) {
    const int channel = program_.messages()[message].channel;
    if (feeds_pool(channel)) continue;
    for (const LinkUse& use : network_.routes[channel].links)
      bytes[use.link] += use.weight * static_cast<double>(load.bytes_of(program_, message).count);
  }
  for (std::size_t link = 0; link < bytes.size(); ++link)
    bound.link = std::max(bound.link, Nanoseconds{static_cast<std::int64_t>(
                                          bytes[link] / network_.bytes_per_ns[link] * (1 - 1e-9))});
  return bound;
}

}  // namespace tributary::plan
