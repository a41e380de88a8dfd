#include "simulate/engine/run_ahead.h"

#include <algorithm>

#include "core/error.h"
#include "schedule/pipeline/plan_pipeline.h"

namespace tributary::simulate {
namespace {

using LaneTimes = std::vector<Nanoseconds>;

bool may_run_ahead(const config::ModulePlan& module) {
  return module.placement == config::Placement::kFlow && module.train == config::TrainMode::kFrozen;
}

/// Whether a lane only runs forwards: a module fed by frozen ones alone gets no gradient.
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

/// Shifts all times so that the step begins at 0.
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
    times.before.push_back(std::max(Nanoseconds{}, begin - message.arrived));
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

std::vector<bool> RunAhead::edges_ahead(const config::Plan& plan,
                                        const schedule::PipelineMap& map) {
  std::vector<bool> ahead;
  for (const schedule::PipelineEdge& edge : map.pipeline().edges) {
    const schedule::PipelineModule& from = map.pipeline().modules[edge.from];
    ahead.push_back(may_run_ahead(*plan.find(from.name)) &&
                    !map.has_backward(edge.from, from.virtual_stages() - 1));
  }
  return ahead;
}

void RunAhead::check_batches_ahead(const config::Plan& plan, std::int64_t batches_ahead,
                                   const std::string& where) {
  if (batches_ahead < 0) return;
  const schedule::Pipeline pipeline = schedule::pipeline_of(plan);
  const std::vector<bool> ahead = edges_ahead(plan, schedule::PipelineMap(pipeline));
  TRIB_REQUIRE(std::find(ahead.begin(), ahead.end(), true) != ahead.end(),
               .what = "simulate: no module of the plan can work on later batches", .where = where,
               .found = str(batches_ahead),
               .expected =
                   "a plan with a module of placement flow and train frozen behind which "
                   "nothing trains");
}

RunAhead::RunAhead(const config::Plan& plan, const StepProgram& program, const Network& network,
                   int batches_ahead)
    : program_(program), network_(network), batches_ahead_(batches_ahead) {
  for (int lane = 0; lane < program.lanes(); ++lane) {
    const int module = program.map().at(lane).module;
    is_ahead_.push_back(may_run_ahead(*plan.find(program.pipeline().modules[module].name)) &&
                        only_encodes(program, lane));
  }
}

bool RunAhead::feeds_pool(int channel) const {
  return network_.routes[channel].capacity > 0 && is_ahead_[program_.channels()[channel].from];
}

/// Returns when the step begins, on a clock on which no lane is free before 0.
Nanoseconds RunAhead::begin_lanes(const Left& left, StepLoad& load) const {
  Nanoseconds begin;
  for (const auto& [lane, free] : left.lanes) begin = std::max(begin, Nanoseconds{} - free);
  load.begins.assign(static_cast<std::size_t>(program_.lanes()), begin);
  // A batch may begin once the backbone has begun the batch `batches_ahead_` before it; with 0 it
  // begins with the step.
  Nanoseconds earliest = Nanoseconds{} - begin;
  if (batches_ahead_ == 0) earliest = {};
  if (batches_ahead_ > 0 && std::ssize(left.begun) >= batches_ahead_) earliest = left.begun.front();
  for (const auto& [lane, free] : left.lanes) load.begins[lane] = begin + std::max(free, earliest);
  return begin;
}

/// Gives the first messages of the step the slots of the last messages of the steps before.
void RunAhead::fill_pool(const Left& left, Nanoseconds begin, StepLoad& load) const {
  load.vacant.assign(program_.messages().size(), {});
  for (int index = 0; index < std::ssize(program_.channels()); ++index) {
    const Channel& channel = program_.channels()[index];
    const auto found = left.taken.find(key_of(channel));
    if (found == left.taken.end()) continue;
    const std::ptrdiff_t never_used = network_.routes[index].capacity - std::ssize(found->second);
    for (std::ptrdiff_t i = 0; i < std::ssize(found->second); ++i)
      if (never_used + i < channel.messages)
        load.vacant[channel.first_message + never_used + i] = begin + found->second[i];
  }
}

void RunAhead::leave_lanes(const StepTimes& times, Left& left) const {
  for (int lane = 0; lane < program_.lanes(); ++lane)
    if (is_ahead_[lane] && program_.first_action(lane + 1) > program_.first_action(lane))
      left.lanes[lane] = times.actions[program_.first_action(lane + 1) - 1].end - times.makespan;
}

void RunAhead::leave_pool(const StepTimes& times, Nanoseconds begin, Left& left) const {
  for (auto& [key, taken] : left.taken)
    for (Nanoseconds& each : taken) each += begin - times.makespan;
  for (int index = 0; index < std::ssize(program_.channels()); ++index) {
    if (!feeds_pool(index)) continue;
    const Channel& channel = program_.channels()[index];
    LaneTimes& taken = left.taken[key_of(channel)];
    for (int message = 0; message < channel.messages; ++message)
      taken.push_back(times.messages[channel.first_message + message].taken - times.makespan);
    const std::ptrdiff_t too_many = std::ssize(taken) - network_.routes[index].capacity;
    if (too_many > 0) taken.erase(taken.begin(), taken.begin() + too_many);
  }
}

/// Notes when a batch has begun: when every replica of the backbone has begun it.
void RunAhead::leave_batch(const StepTimes& times, Nanoseconds begin, Left& left) const {
  Nanoseconds begun;
  for (int index = 0; index < std::ssize(program_.channels()); ++index) {
    if (!feeds_pool(index)) continue;
    const Channel& channel = program_.channels()[index];
    Nanoseconds first = times.makespan;
    for (int message = 0; message < channel.messages; ++message)
      first = std::min(first, times.messages[channel.first_message + message].taken);
    begun = std::max(begun, first);
  }
  for (Nanoseconds& each : left.begun) each += begin - times.makespan;
  left.begun.push_back(begun - times.makespan);
  if (std::ssize(left.begun) > batches_ahead_) left.begun.erase(left.begun.begin());
  // A time before all lanes were free can no longer hold back any lane.
  Nanoseconds first_free;
  for (const auto& [lane, free] : left.lanes) first_free = std::min(first_free, free);
  std::erase_if(left.begun, [first_free](Nanoseconds each) { return each <= first_free; });
}

StepTimes RunAhead::time(StepLoad& load, Left& left) const {
  const bool takes_batches = batches_ahead_ >= 0;
  const Nanoseconds begin = begin_lanes(left, load);
  if (!takes_batches) fill_pool(left, begin, load);
  StepTimes times = time_step(program_, load, network_);
  if (!times.blocked.empty()) return times;
  leave_lanes(times, left);
  takes_batches ? leave_batch(times, begin, left) : leave_pool(times, begin, left);
  begin_at(begin, times);
  times.batches_ahead = std::max(0, batches_ahead_);
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
      // The part of it that account_lanes did not see.
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

LanesAhead RunAhead::lanes_ahead(bool equal) const {
  if (batches_ahead_ == 0) return {};
  return {.lanes = is_ahead_, .in_pace = equal};
}

}  // namespace tributary::simulate
