#include "plan/judge/judged_plan.h"

#include <algorithm>

#include "core/error.h"
#include "plan/judge/simulate_on.h"
#include "schedule/pipeline/plan_pipeline.h"

namespace tributary::plan {

using schedule::Op;

namespace {

/// A cluster whose ranks do not share cores, for plans with a core for each thread.
config::Cluster without_cores(config::Cluster cluster) {
  cluster.cores = 0;
  return cluster;
}

/// Activations that the ranks of a lane keep.
struct KeptBytes {
  std::int64_t max = 0;      // [bytes] max at a time: passes of a lane do not overlap
  std::int64_t resting = 0;  // [bytes] when all forwards are done
};

/// Follows the passes of a lane, for all replicas at once.
class KeptOfLane {
 public:
  /// features: [bytes] of a mean microbatch on a rank of the backbone's first stage, where the
  /// features of all microbatches arrive before the first pass
  KeptOfLane(const JudgedPlan& plan, int lane, std::int64_t features)
      : program_(plan.program),
        of_(program_.map().at(lane)),
        module_(plan.load.modules[of_.module]),
        features_(of_.stage == 0 && of_.module == program_.map().flow().back() ? features : 0),
        held_(module_.replicas(), features_ * program_.pipeline().microbatches) {
    for (int chunk = 0; chunk < program_.pipeline().modules[of_.module].chunks; ++chunk)
      chunks_.push_back(chunk_of(chunk));
    for (int action = program_.first_action(lane); action < program_.first_action(lane + 1);
         ++action)
      if (program_.kind(action) == simulate::StepKind::kPass) pass(program_.action(action));
  }
  [[nodiscard]] const KeptBytes& kept() const { return kept_; }

 private:
  struct Chunk {
    int virtual_stage = 0;
    bool has_backward = false;
    bool has_weights = false;
  };
  [[nodiscard]] Chunk chunk_of(int chunk) const {
    const int virtual_stage = program_.map().virtual_stage(of_.module, of_.stage, chunk);
    return {virtual_stage, program_.map().has_backward(of_.module, virtual_stage),
            program_.pipeline().modules[of_.module].has_weights_of(virtual_stage)};
  }

  void pass(const schedule::Action& action) {
    const Chunk& chunk = chunks_[action.chunk];
    const ModulePasses::OfReplicas of = module_.at(chunk.virtual_stage, action.microbatch);
    for (std::size_t i = 0; i < held_.size(); ++i) pass(action.op, chunk, of[i].bytes, held_[i]);
    if (action.op == Op::kForward) kept_.resting = *std::max_element(held_.begin(), held_.end());
  }

  void pass(Op op, const Chunk& chunk, const PassBytes& bytes, std::int64_t& held) {
    const auto note = [&](std::int64_t now) { kept_.max = std::max(kept_.max, now); };
    switch (op) {
      case Op::kForward:
        note(held + bytes.kept + bytes.ahead);
        if (chunk.has_backward) held += bytes.kept;
        if (chunk.virtual_stage == 0) held -= features_;
        break;
      case Op::kBackward:
        note(held + bytes.peak);
        held -= bytes.kept;
        break;
      case Op::kBackwardInput:
        note(held + bytes.peak);
        held -= bytes.kept;
        if (chunk.has_weights) held += bytes.after;
        note(held);
        break;
      default:
        held -= bytes.after;
        break;
    }
  }

  const simulate::StepProgram& program_;
  schedule::Lane of_;
  const ModulePasses& module_;
  std::int64_t features_;
  std::vector<Chunk> chunks_;
  std::vector<std::int64_t> held_;  // [replicas]
  KeptBytes kept_;
};

/// What a lane holds whatever the microbatches are.
struct LaneState {
  std::int64_t held = 0;
  std::int64_t gathered = 0;  // of two lanes on a rank only one at a time
  std::int64_t process = 0;   // once for each rank

  [[nodiscard]] std::int64_t sum() const { return held + gathered + process; }
};
LaneState state_of_lane(const JudgedPlan& plan, int lane) {
  const schedule::Lane of = plan.program.map().at(lane);
  LaneState lane_state;
  auto& [held, gathered, process] = lane_state;
  for (int chunk = 0; chunk < plan.program.pipeline().modules[of.module].chunks; ++chunk) {
    const cost::StageState state =
        plan.costs.state(of.module, plan.program.map().virtual_stage(of.module, of.stage, chunk));
    held += (state.parameters + state.gradients + state.optimizer).count;
    gathered = std::max(gathered, state.gathered.count);
    process = std::max(process, state.process.count);
  }
  return lane_state;
}

/// Bytes that colocated modules give a rank of the first stage for a mean microbatch: each of their
/// ranks gives a part, and they have as many ranks as the backbone has on its stages.
std::int64_t features_of(const JudgedPlan& plan) {
  const std::vector<schedule::PipelineModule>& modules = plan.program.pipeline().modules;
  std::int64_t bytes = 0;
  for (std::size_t module = 0; module < modules.size(); ++module) {
    if (!modules[module].is_colocated()) continue;
    const int stages =
        modules[module].beside_first ? 1 : modules[plan.program.map().flow().back()].stages;
    bytes += plan.load.modules[module].mean_boundary * stages;
  }
  return bytes;
}

/// Adds the buffers of messages between stages at both ends, the max over replicas.
void add_buffers(const JudgedPlan& plan, std::vector<LaneState>& states) {
  const simulate::StepProgram& program = plan.program;
  for (const simulate::Channel& channel : program.channels()) {
    if (channel.messages == 0 || channel.edge >= 0) continue;
    std::int64_t largest = 0;
    for (int i = 0; i < channel.messages; ++i) {
      const ReplicaTimer::MessagePlace& of = plan.timer.of_message(channel.first_message + i);
      const ModulePasses& module = plan.load.modules[of.module];
      for (std::size_t replica = 0; replica < module.replicas(); ++replica)
        largest = std::max(largest, ReplicaTimer::boundary(of, module, replica));
    }
    const std::int64_t bytes = largest * std::min(channel.messages, channel.send_buffers);
    states[channel.from].held += bytes;
    states[channel.to].held += bytes;
  }
}

}  // namespace

ReplicaProgram::ReplicaProgram(const PlanningProblem& problem, const PlanChoice& chosen,
                               const config::Plan& plan, simulate::FoldedPipeline pipeline,
                               std::shared_ptr<const simulate::StepProgram> lists)
    : choice(chosen),
      folded(std::move(pipeline)),
      program(std::move(lists)),
      network(simulate::network_of(plan, without_cores(problem.cluster), *program, folded.folding,
                                   {.share_links = false})),
      ports(
          simulate::network_of(plan, without_cores(problem.cluster), *program, folded.folding, {})),
      timer(*program, network) {}

std::string name_lists(const schedule::Pipeline& pipeline) {
  std::string name = str(pipeline.microbatches);
  for (const schedule::PipelineModule& module : pipeline.modules) {
    TRIB_CHECK(module.times.empty(), .what = "plan: lists of a candidate are made to measure",
               .where = module.name);
    name += str(' ', module.name, ' ', static_cast<int>(module.order), ' ', module.stages, ' ',
                module.chunks, ' ', module.group, ' ', module.replicas, ' ', module.boundary, ' ');
    if (module.is_colocated()) name += 'c';  // its lists do not contain its number of passes
    if (module.beside_first) name += '1';
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
  const simulate::StepProgram& program = plan.program;
  std::vector<LaneState> states;
  for (int lane = 0; lane < program.lanes(); ++lane) states.push_back(state_of_lane(plan, lane));
  add_buffers(plan, states);
  std::vector<KeptBytes> kept;
  const std::int64_t features = features_of(plan);
  for (int lane = 0; lane < program.lanes(); ++lane)
    kept.push_back(KeptOfLane(plan, lane, features).kept());
  LanePeak peak;
  for (int lane = 0; lane < program.lanes(); ++lane) {
    LaneState state = states[lane];
    std::int64_t max = kept[lane].max;
    if (program.map().at(lane).module == program.map().flow().back()) {
      for (const int beside : program.map().lanes_beside(lane)) {
        state.held += states[beside].held;
        state.gathered = std::max(state.gathered, states[beside].gathered);
        state.process = std::max(state.process, states[beside].process);
        max = std::max(kept[beside].max, kept[beside].resting + max);
      }
    }
    if (state.sum() + max > peak.bytes.count) peak = {{state.sum() + max}, lane};
  }
  return peak;
}

Nanoseconds port_time(const JudgedPlan& plan) {
  const simulate::StepProgram& program = plan.program;
  std::vector<double> taken(plan.ports.bytes_per_ns.size());
  for (const simulate::Channel& channel : program.channels()) {
    const simulate::Route& route = plan.ports.routes[&channel - program.channels().data()];
    double bytes = 0;
    for (int i = 0; i < channel.messages; ++i) {
      const ReplicaTimer::MessagePlace& of = plan.timer.of_message(channel.first_message + i);
      const ModulePasses& module = plan.load.modules[of.module];
      std::int64_t all = 0;
      std::int64_t replicas = 0;
      for (std::size_t replica = 0; replica < module.replicas(); ++replica) {
        const std::int64_t times = module.stand_for[replica];
        all += ReplicaTimer::boundary(of, module, replica) * times;
        replicas += times;
      }
      bytes += static_cast<double>(all) / static_cast<double>(replicas);
    }
    for (const simulate::LinkUse& use : route.links) taken[use.link] += use.weight * bytes;
  }
  double longest = 0;
  for (std::size_t link = 0; link < taken.size(); ++link)
    longest = std::max(longest, taken[link] / plan.ports.bytes_per_ns[link]);
  return {static_cast<std::int64_t>(longest)};
}

void load_fixed(JudgedPlan& plan) {
  const simulate::StepProgram& program = plan.program;
  plan.load.fixed.assign(static_cast<std::size_t>(program.actions()), {});
  for (int action = 0; action < program.actions(); ++action) {
    if (program.kind(action) != simulate::StepKind::kReduce &&
        program.kind(action) != simulate::StepKind::kOptimize)
      continue;
    const schedule::Lane of = program.map().at(program.lane_of(action));
    const auto state = [&](int chunk) {
      return plan.costs.state(of.module, program.map().virtual_stage(of.module, of.stage, chunk));
    };
    if (program.kind(action) == simulate::StepKind::kReduce)
      plan.load.fixed[action] = state(program.action(action).chunk).reduction;
    if (program.kind(action) != simulate::StepKind::kOptimize) continue;
    Nanoseconds host;
    for (int chunk = 0; chunk < program.pipeline().modules[of.module].chunks; ++chunk) {
      plan.load.fixed[action] += state(chunk).optimizer_step;
      host = std::max(host, state(chunk).host_step);
    }
    // The host's part comes once for a rank, however many modules that has.
    if (program.takes_host_step(action)) plan.load.fixed[action] += host;
  }
}

}  // namespace tributary::plan
