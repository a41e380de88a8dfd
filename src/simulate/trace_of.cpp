#include "simulate/trace_of.h"

#include <algorithm>
#include <tuple>

#include "core/text.h"

namespace tributary::simulate {
namespace {

using config::TraceStream;

std::string kind_of(const schedule::Action& action) {
  return std::string(schedule::span_kind_of(action.op));
}

bool holds_time(StepKind kind) {
  return kind == StepKind::kPass || kind == StepKind::kReduce || kind == StepKind::kOptimize;
}

/// The spans of the first lanes, ascending by lane, start and stream.
std::vector<config::TraceSpan> spans_of(const Simulation& simulation, int max_lanes) {
  const StepProgram& program = simulation.program;
  std::vector<bool> critical_action(static_cast<std::size_t>(program.actions()), false);
  std::vector<bool> critical_message(program.messages().size(), false);
  for (const PathPart& part : simulation.critical_path) {
    if (part.action >= 0) critical_action[part.action] = true;
    if (part.message >= 0) critical_message[part.message] = true;
  }
  std::vector<config::TraceSpan> spans;
  const int lanes = std::min(max_lanes, program.lanes());
  for (int action = 0; action < program.first_action(lanes); ++action) {
    const ActionTimes& at = simulation.times.actions[action];
    if (!holds_time(program.kind(action)) || at.end == at.start) continue;
    spans.push_back({.lane = program.lane_of(action),
                     .stream = program.kind(action) == StepKind::kReduce ? TraceStream::kReduction
                                                                         : TraceStream::kCompute,
                     .name = to_text(program.action(action)),
                     .kind = kind_of(program.action(action)),
                     .start = at.start,
                     .duration = at.end - at.start,
                     .critical = critical_action[action]});
  }
  for (std::size_t message = 0; message < program.messages().size(); ++message) {
    const Message& of = program.messages()[message];
    const MessageTimes& at = simulation.times.messages[message];
    const int lane = program.channels()[of.channel].to;
    if (lane >= lanes || at.arrived == at.begun()) continue;
    spans.push_back({.lane = lane,
                     .stream = TraceStream::kMessages,
                     .name = to_text(program.action(of.send)),
                     .kind = "transfer",
                     .start = at.begun(),
                     .duration = at.arrived - at.begun(),
                     .critical = critical_message[message]});
  }
  std::stable_sort(spans.begin(), spans.end(), [](const auto& a, const auto& b) {
    return std::tie(a.lane, a.start, a.stream) < std::tie(b.lane, b.start, b.stream);
  });
  return spans;
}

config::NamedBytes parts_of(const LaneMemory& memory) {
  config::NamedBytes parts{{"parameters", memory.parameters},   {"gradients", memory.gradients},
                           {"optimizer", memory.optimizer},     {"gathered", memory.gathered},
                           {"process", memory.process},         {"buffers", memory.buffers},
                           {"activations", memory.activations}, {"features", memory.features}};
  if (memory.other.count > 0) parts["other_module"] = memory.other;
  return parts;
}

std::string describe(const OutOfMemory& shortage) {
  std::string parts;
  for (const auto& [name, bytes] : parts_of(shortage.memory))
    if (bytes.count > 0) parts += str(parts.empty() ? "" : ", ", name, " ", bytes);
  return str(shortage.lane, " in step ", shortage.step, " needs ", shortage.needed, ", has ",
             shortage.available, ": ", parts);
}

config::TraceLane lane_of(const Simulation& simulation, int lane, bool shows_memory) {
  const StepProgram& program = simulation.program;
  const LaneAccount& account = simulation.accounts[lane];
  config::TraceLane trace{.name = program.map().describe(lane),
                          .module = program.pipeline().modules[program.map().at(lane).module].name,
                          .ranks = simulation.lane_ranks[lane],
                          .busy = account.total(TimeClass::kBusy),
                          .communication = account.total(TimeClass::kCommunication),
                          .idle = account.total(TimeClass::kIdle)};
  for (std::size_t use = 0; use < kTimeUses; ++use)
    if (account.time[use].count > 0)
      trace.uses.emplace(std::string(name_of(static_cast<TimeUse>(use))), account.time[use]);
  trace.peak = simulation.memory[lane].total();
  trace.peak_parts = parts_of(simulation.memory[lane]);
  if (shows_memory)
    for (const MemoryPoint& point : simulation.memory_points[lane])
      trace.memory.emplace_back(point.time, point.bytes);
  return trace;
}

config::NamedTimes path_of(const Simulation& simulation) {
  config::NamedTimes kinds;
  for (const PathPart& part : simulation.critical_path)
    kinds[part.action < 0 ? "transfer" : kind_of(simulation.program.action(part.action))] +=
        part.end - part.start;
  const Nanoseconds step = simulation.steps[simulation.shown];
  if (step > simulation.times.makespan) kinds["wait_plan"] = step - simulation.times.makespan;
  return kinds;
}

config::NamedShares shares_of(const Utilisation& utilisation) {
  config::NamedShares shares;
  if (utilisation.peak <= 0) return shares;
  const auto add = [&](const std::string& suffix, const cost::TrainingFlops& flops,
                       const cost::TrainingFlops& without) {
    shares["mfu_causal" + suffix] = (flops.causal - without.causal) / utilisation.peak;
    shares["mfu_full" + suffix] = (flops.full - without.full) / utilisation.peak;
    shares["hfu" + suffix] = (flops.hardware - without.hardware) / utilisation.peak;
  };
  const auto& [all, frozen] = utilisation.flops;
  add("", all, {});
  if (frozen.causal > 0) add("_without_frozen", all, frozen);
  return shares;
}

}  // namespace

config::Trace trace_of(const Simulation& simulation, const std::string& plan,
                       const std::string& cluster, int max_lanes) {
  config::Trace trace;
  for (int lane = 0; lane < simulation.program.lanes(); ++lane)
    trace.lanes.push_back(lane_of(simulation, lane, lane < max_lanes));
  trace.spans = spans_of(simulation, max_lanes);
  const StepDistribution& of = simulation.distribution;
  trace.summary = {.source = "simulated",
                   .plan = plan,
                   .cluster = cluster,
                   .steps = std::ssize(simulation.steps),
                   .step = of.mean,
                   .distribution = {{"mean", of.mean},
                                    {"deviation", of.deviation},
                                    {"min", of.min},
                                    {"median", of.median},
                                    {"percentile_95", of.percentile_95},
                                    {"max", of.max}},
                   .lower_bound = bound_of(simulation).value(),
                   .ranks = simulation.ranks,
                   .idle_share = account_ranks(simulation.program.map(), simulation.accounts,
                                               simulation.lane_ranks)
                                     .share(TimeClass::kIdle),
                   .mfu = simulation.utilisation.mfu,
                   .mfu_formula = simulation.utilisation.formula,
                   .utilisation = shares_of(simulation.utilisation),
                   .critical_path = path_of(simulation),
                   .out_of_memory = simulation.out_of_memory ? describe(*simulation.out_of_memory)
                                                             : std::string(),
                   .unsettled = simulation.unsettled,
                   .failures = simulation.failures.failures,
                   .goodput = simulation.failures.goodput};
  return trace;
}

}  // namespace tributary::simulate
