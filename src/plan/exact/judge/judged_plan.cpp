#include "plan/exact/judge/judged_plan.h"

#include <algorithm>
#include <tuple>

#include "core/error.h"
#include "plan/exact/judge/simulate_on.h"
#include "schedule/pipeline/plan_pipeline.h"

namespace tributary::plan {

using schedule::Op;

namespace {

/// Ranks that have a core for each of their threads do not share any.
config::Cluster without_cores(config::Cluster cluster) {
  cluster.cores = 0;
  return cluster;
}

/// What ranks of a lane keep of activations.
struct KeptBytes {
  std::int64_t most = 0;     // at a time: passes of a lane do not overlap
  std::int64_t resting = 0;  // when all forwards are done
};

KeptBytes most_kept(const JudgedPlan& plan, int lane, int replica) {
  const StepProgram& program = plan.program;
  const schedule::Lane of = program.map().at(lane);
  const schedule::PipelineModule& module = program.pipeline().modules[of.module];
  std::vector<bool> has_backward;  // [chunks]
  std::vector<bool> has_weights;
  for (int chunk = 0; chunk < module.chunks; ++chunk) {
    const int virtual_stage = program.map().virtual_stage(of.module, of.stage, chunk);
    has_backward.push_back(program.map().has_backward(of.module, virtual_stage));
    has_weights.push_back(module.has_weights_of(virtual_stage));
  }
  const std::size_t base = static_cast<std::size_t>(replica) * plan.timer.replica_size(of.module);
  std::int64_t held = 0;
  std::int64_t most = 0;
  std::int64_t resting = 0;
  for (int action = program.first_action(lane); action < program.first_action(lane + 1); ++action) {
    if (program.kind(action) != StepKind::kPass) continue;
    const schedule::Action& pass = program.action(action);
    const PassBytes& bytes = plan.bytes[of.module][base + plan.timer.of_action(action).place];
    switch (pass.op) {
      case Op::kForward:
        most = std::max(most, held + bytes.kept + bytes.ahead);
        if (has_backward[pass.chunk]) held += bytes.kept;
        resting = held;
        break;
      case Op::kBackward:
        most = std::max(most, held + bytes.peak);
        held -= bytes.kept;
        break;
      case Op::kBackwardInput:
        most = std::max(most, held + bytes.peak);
        held -= bytes.kept;
        if (has_weights[pass.chunk]) held += bytes.after;
        most = std::max(most, held);
        break;
      default:
        held -= bytes.after;
        break;
    }
  }
  return {most, resting};
}

/// What a lane holds whatever the microbatches are.
struct LaneState {
  std::int64_t held = 0;
  std::int64_t gathered = 0;  // of two lanes on a rank one at a time
  std::int64_t process = 0;   // once for a rank

  [[nodiscard]] std::int64_t sum() const { return held + gathered + process; }
};
LaneState state_of_lane(const JudgedPlan& plan, int lane) {
  const schedule::Lane of = plan.program.map().at(lane);
  LaneState lane_state;
  auto& [held, gathered, process] = lane_state;
  for (int chunk = 0; chunk < plan.program.pipeline().modules[of.module].chunks; ++chunk) {
    const StageState state =
        plan.costs.state(of.module, plan.program.map().virtual_stage(of.module, of.stage, chunk));
    held += (state.parameters + state.gradients + state.optimizer).count;
    gathered = std::max(gathered, state.gathered.count);
    process = std::max(process, state.process.count);
  }
  return lane_state;
}

/// Buffers of messages between stages at both ends, the largest of any replica.
void add_buffers(const JudgedPlan& plan, std::vector<LaneState>& states) {
  const StepProgram& program = plan.program;
  for (const Channel& channel : program.channels()) {
    if (channel.messages == 0 || channel.edge >= 0) continue;
    std::int64_t largest = 0;
    for (int i = 0; i < channel.messages; ++i) {
      const ReplicaTimer::MessagePlace& of = plan.timer.of_message(channel.first_message + i);
      const std::vector<PassCosts>& passes = plan.load.passes[of.module];
      for (std::size_t at = of.place; at < passes.size(); at += plan.timer.replica_size(of.module))
        largest = std::max(largest, passes[at].boundary);
    }
    const std::int64_t bytes = largest * std::min(channel.messages, program.send_buffers(channel));
    states[channel.from].held += bytes;
    states[channel.to].held += bytes;
  }
}

}  // namespace

ReplicaProgram::ReplicaProgram(const PlanningProblem& problem, const PlanChoice& chosen,
                               const config::Plan& plan, FoldedPipeline pipeline,
                               std::shared_ptr<const StepProgram> lists)
    : choice(chosen),
      folded(std::move(pipeline)),
      program(std::move(lists)),
      network(network_of(plan, without_cores(problem.cluster), *program, folded.folding,
                         {.share_links = false})),
      ports(network_of(plan, without_cores(problem.cluster), *program, folded.folding, {})),
      timer(*program, network) {}

std::string name_lists(const schedule::Pipeline& pipeline) {
  std::string name = str(pipeline.microbatches);
  for (const schedule::PipelineModule& module : pipeline.modules) {
    TRIB_CHECK(module.times.empty(), .what = "plan: lists of a candidate are made to measure",
               .where = module.name);
    name += str(' ', module.name, ' ', static_cast<int>(module.order), ' ', module.stages, ' ',
                module.chunks, ' ', module.group, ' ', module.replicas, ' ', module.boundary, ' ');
    if (module.is_colocated()) name += 'c';  // its lists do not know in how many passes
    for (const bool trains : module.trains) name += trains ? 't' : 'f';
  }
  return name;
}

JudgedPlan::JudgedPlan(const PlanningProblem& problem, const PlanChoice& chosen, config::Plan of,
                       const ReplicaProgram& lists)
    : plan(std::move(of)),
      whole(schedule::pipeline_of(plan)),
      costs(costs_on(problem, plan)),
      program(*lists.program),
      ports(lists.ports),
      timer(lists.timer),
      choice(chosen) {}

LanePeak peak_of(const JudgedPlan& plan) {
  const StepProgram& program = plan.program;
  std::vector<LaneState> states;
  for (int lane = 0; lane < program.lanes(); ++lane) states.push_back(state_of_lane(plan, lane));
  add_buffers(plan, states);
  std::vector<KeptBytes> kept(states.size());
  for (int lane = 0; lane < program.lanes(); ++lane) {
    const int module = program.map().at(lane).module;
    for (int replica = 0; replica < plan.load.replicas[module]; ++replica) {
      const KeptBytes of = most_kept(plan, lane, replica);
      kept[lane] = {std::max(kept[lane].most, of.most), std::max(kept[lane].resting, of.resting)};
    }
  }
  LanePeak peak;
  for (int lane = 0; lane < program.lanes(); ++lane) {
    LaneState state = states[lane];
    std::int64_t most = kept[lane].most;
    if (program.map().at(lane).module == program.map().flow().back()) {
      for (const int beside : program.map().lanes_beside(lane)) {
        state.held += states[beside].held;
        state.gathered = std::max(state.gathered, states[beside].gathered);
        state.process = std::max(state.process, states[beside].process);
        most = std::max(kept[beside].most, kept[beside].resting + most);
      }
    }
    if (state.sum() + most > peak.bytes.count) peak = {{state.sum() + most}, lane};
  }
  return peak;
}

Nanoseconds port_time(const JudgedPlan& plan) {
  const StepProgram& program = plan.program;
  std::vector<double> taken(plan.ports.bytes_per_ns.size());
  for (const Channel& channel : program.channels()) {
    const Route& route = plan.ports.routes[&channel - program.channels().data()];
    double bytes = 0;
    for (int i = 0; i < channel.messages; ++i) {
      const ReplicaTimer::MessagePlace& of = plan.timer.of_message(channel.first_message + i);
      const std::vector<PassCosts>& passes = plan.load.passes[of.module];
      std::int64_t all = 0;
      std::int64_t replicas = 0;
      std::size_t at = of.place;
      for (const std::int64_t times : plan.stand_for[of.module]) {
        all += plan.timer.boundary(of, &passes[at - of.place]) * times;
        replicas += times;
        at += plan.timer.replica_size(of.module);
      }
      bytes += static_cast<double>(all) / static_cast<double>(replicas);
    }
    for (const LinkUse& use : route.links) taken[use.link] += use.weight * bytes;
  }
  double longest = 0;
  for (std::size_t link = 0; link < taken.size(); ++link)
    longest = std::max(longest, taken[link] / plan.ports.bytes_per_ns[link]);
  return {static_cast<std::int64_t>(longest)};
}

void load_fixed(JudgedPlan& plan) {
  const StepProgram& program = plan.program;
  plan.load.fixed.assign(static_cast<std::size_t>(program.actions()), {});
  for (int action = 0; action < program.actions(); ++action) {
    if (program.kind(action) != StepKind::kReduce && program.kind(action) != StepKind::kOptimize)
      continue;
    const schedule::Lane of = program.map().at(program.lane_of(action));
    const auto state = [&](int chunk) {
      return plan.costs.state(of.module, program.map().virtual_stage(of.module, of.stage, chunk));
    };
    if (program.kind(action) == StepKind::kReduce)
      plan.load.fixed[action] = state(program.action(action).chunk).reduction;
    if (program.kind(action) != StepKind::kOptimize) continue;
    Nanoseconds host;
    for (int chunk = 0; chunk < program.pipeline().modules[of.module].chunks; ++chunk) {
      plan.load.fixed[action] += state(chunk).optimizer_step;
      host = std::max(host, state(chunk).host_step);
    }
    // It comes once for a rank, whatever modules that has.
    const bool is_counted =
        !program.first_steps().empty() && of.module == program.map().colocated();
    if (!is_counted) plan.load.fixed[action] += host;
  }
}

void join_replicas(JudgedPlan& plan, std::size_t index) {
  std::vector<PassCosts>& passes = plan.load.passes[index];
  std::vector<PassBytes>& bytes = plan.bytes[index];
  const auto all = static_cast<std::size_t>(plan.timer.replica_size(static_cast<int>(index)));
  const std::size_t size = passes.size() / plan.stand_for[index].size();  // of its passes
  std::vector<std::int64_t> boundary(size);
  std::size_t forward = 0;
  std::size_t backward = 0;
  std::int64_t most_forward = -1;
  std::int64_t most_backward = -1;
  std::int64_t replicas = 0;
  for (std::size_t first = 0; first < passes.size(); first += size) {
    const std::int64_t times = plan.stand_for[index][first / size];
    replicas += times;
    std::int64_t go = 0;
    std::int64_t back = 0;
    for (std::size_t i = 0; i < size; ++i) {
      const PassCosts& pass = passes[first + i];
      go += pass.forward;
      back += pass.input_gradient + pass.weight_gradient;
      boundary[i] += pass.boundary * times;
      bytes[i].raise_to(bytes[first + i]);
    }
    if (go > most_forward) std::tie(most_forward, forward) = std::tuple(go, first);
    if (back > most_backward) std::tie(most_backward, backward) = std::tuple(back, first);
  }
  std::vector<PassCosts> slowest(size);
  for (std::size_t i = 0; i < size; ++i)
    slowest[i] = {.forward = passes[forward + i].forward,
                  .input_gradient = passes[backward + i].input_gradient,
                  .weight_gradient = passes[backward + i].weight_gradient,
                  .boundary = (boundary[i] + replicas - 1) / replicas};
  slowest.resize(all);
  passes = std::move(slowest);
  bytes.resize(size);
  bytes.resize(all);
  plan.stand_for[index] = {replicas};
  plan.load.replicas[index] = 1;
}

}  // namespace tributary::plan
