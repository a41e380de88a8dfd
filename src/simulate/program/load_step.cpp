#include "simulate/program/load_step.h"

#include <algorithm>

namespace tributary::simulate {
namespace {

using schedule::Op;

class StepLoading {
 public:
  StepLoading(const StepProgram& program, const cost::StageCosts& costs,
              const ReplicaFolding& folding)
      : program_(program), costs_(costs), folding_(folding) {}

  LoadedStep load(const StepShapes& shapes) const {
    LoadedStep loaded;
    const auto actions = static_cast<std::size_t>(program_.actions());
    loaded.load.duration.resize(actions);
    loaded.load.exposed.resize(actions);
    loaded.pass_costs.resize(actions);
    loaded.load.bytes.resize(program_.messages().size());
    for (int lane = 0; lane < program_.lanes(); ++lane) load_lane(lane, shapes, loaded);
    // The size of a message comes from a pass, possibly on another lane.
    for (int action = 0; action < program_.actions(); ++action) load_action(action, loaded);
    return loaded;
  }

 private:
  void load_lane(int lane, const StepShapes& shapes, LoadedStep& loaded) const {
    const schedule::Lane of = program_.map().at(lane);
    const int chunks = program_.pipeline().modules[of.module].chunks;
    const std::vector<cost::MicrobatchShape>& microbatches = shapes[of.module][of.replica];
    for (int chunk = 0; chunk < chunks; ++chunk) {
      const int at = program_.map().virtual_stage(of.module, of.stage, chunk);
      cost::StageCost cost;
      cost::StageFlops flops;
      for (std::size_t i = 0; i < microbatches.size(); ++i) {
        if (is_left_out(of.module, i)) break;
        if (i == 0 || microbatches[i] != microbatches[i - 1]) {
          cost = costs_.cost(of.module, at, microbatches[i]);
          flops = costs_.flops(of.module, at, microbatches[i]);
        }
        load_passes(lane, chunk, static_cast<int>(i), cost, loaded);
        loaded.flops += flops * folding_.stands_for[of.module];
        loaded.outside_grid = loaded.outside_grid || cost.outside_grid;
      }
    }
  }

  /// A colocated module has fewer passes than there are microbatches.
  [[nodiscard]] bool is_left_out(int module, std::size_t microbatch) const {
    const schedule::Pipeline& pipeline = program_.pipeline();
    return static_cast<int>(microbatch) >=
           pipeline.modules[module].passes_of(pipeline.microbatches);
  }

  /// The microbatch of a lane's list at which it runs the forward, or backward, of its `pass`.
  [[nodiscard]] int place_of(int lane, StepProgram::Pass kind, int pass) const {
    const schedule::PipelineModule& module =
        program_.pipeline().modules[program_.map().at(lane).module];
    if (!module.is_colocated()) return pass;
    const schedule::PassGroups groups = module.groups_of(program_.pipeline().microbatches);
    return static_cast<int>(kind == StepProgram::Pass::kForward ? groups.first_of(pass)
                                                                : groups.first_of(pass + 1) - 1);
  }

  void load_passes(int lane, int chunk, int microbatch, const cost::StageCost& cost,
                   LoadedStep& loaded) const {
    using Pass = StepProgram::Pass;
    for (const Pass pass : {Pass::kForward, Pass::kInputGradient, Pass::kWeightGradient}) {
      const int action = program_.pass_at(lane, pass, chunk, place_of(lane, pass, microbatch));
      if (action < 0) continue;
      loaded.pass_costs[action] = cost;
      Nanoseconds compute = cost.weight_gradient;
      Nanoseconds exposed;
      if (pass == Pass::kForward) {
        compute = cost.forward;
        exposed = cost.forward_exposed;
      } else if (pass == Pass::kInputGradient) {
        compute = cost.input_gradient;
        exposed = cost.gradient_exposed;
        if (program_.action(action).op == Op::kBackward) compute += cost.weight_gradient;
      }
      loaded.load.duration[action] = compute + exposed;
      loaded.load.exposed[action] = exposed;
    }
  }

  void load_action(int action, LoadedStep& loaded) const {
    const schedule::Lane of = program_.map().at(program_.lane_of(action));
    const schedule::Action& each = program_.action(action);
    switch (program_.kind(action)) {
      case StepKind::kReduce:
        loaded.load.duration[action] =
            costs_.state(of.module, program_.map().virtual_stage(of.module, of.stage, each.chunk))
                .reduction;
        break;
      case StepKind::kOptimize:
        load_optimizer(action, of, loaded);
        break;
      case StepKind::kSend:
        load_messages(action, loaded);
        break;
      default:
        break;
    }
  }

  void load_optimizer(int action, const schedule::Lane& of, LoadedStep& loaded) const {
    if (program_.map().is_ahead(program_.lane_of(action))) return;  // it has nothing to update
    Nanoseconds host;
    for (int chunk = 0; chunk < program_.pipeline().modules[of.module].chunks; ++chunk) {
      const cost::StageState state =
          costs_.state(of.module, program_.map().virtual_stage(of.module, of.stage, chunk));
      loaded.load.duration[action] += state.optimizer_step;
      host = std::max(host, state.host_step);
    }
    // The host's part comes once for a rank, however many modules that has.
    if (program_.takes_host_step(action)) loaded.load.duration[action] += host;
  }

  /// Sets the sizes of messages. Activations and gradients of a microbatch are equal in size. The
  /// output of a module's last virtual stage is divided among the replicas at the other end of the
  /// edge; its gradients are as large and come back likewise, those of a colocated module with each
  /// microbatch of the backbone.
  void load_messages(int action, LoadedStep& loaded) const {
    if (schedule::is_turn(program_.action(action).op)) return;  // nothing is sent
    for (const int message : program_.messages_of(action)) {
      const Channel& channel = program_.channels()[program_.messages()[message].channel];
      const bool is_gradient =
          channel.op == Op::kSendGradient || channel.op == Op::kSendFeatureGradients;
      const int giver = is_gradient ? channel.to : channel.from;
      const int taker = is_gradient ? channel.from : channel.to;
      const schedule::Lane from = program_.map().at(giver);
      const schedule::Action& at_giver = is_gradient
                                             ? program_.action(program_.messages()[message].receive)
                                             : program_.action(action);
      const int pass = program_.pass_at(
          giver, StepProgram::Pass::kForward,
          channel.edge >= 0 ? last_chunk(from.module) : at_giver.chunk, at_giver.microbatch);
      std::int64_t bytes = loaded.pass_costs[pass].boundary.count;
      if (is_gradient && program_.map().goes_in_one_batch(channel.edge))
        bytes = mean_boundary(giver, loaded);
      else if (program_.map().is_of_colocated(channel.edge) &&
               !program_.map().goes_in_one_batch(channel.edge))
        bytes = part_of_pass(giver, at_giver.microbatch, loaded);
      if (channel.edge >= 0) {
        const std::int64_t takers =
            program_.pipeline().modules[program_.map().at(taker).module].replicas;
        bytes = (bytes + takers - 1) / takers;
      }
      loaded.load.bytes[message] = {bytes};
    }
  }
  /// What a microbatch takes of a pass of a colocated module.
  [[nodiscard]] std::int64_t part_of_pass(int lane, int microbatch,
                                          const LoadedStep& loaded) const {
    const schedule::PassGroups groups =
        program_.pipeline().modules[program_.map().at(lane).module].groups_of(
            program_.pipeline().microbatches);
    const std::int64_t pass = groups.pass_of(microbatch);
    const auto first = static_cast<int>(groups.first_of(pass));
    const std::int64_t all =
        loaded.pass_costs[program_.pass_at(lane, StepProgram::Pass::kForward, 0, first)]
            .boundary.count;
    const std::int64_t parts = groups.first_of(pass + 1) - first;
    return (all + parts - 1) / parts;
  }
  [[nodiscard]] std::int64_t mean_boundary(int lane, const LoadedStep& loaded) const {
    std::int64_t all = 0;
    const int microbatches = program_.pipeline().microbatches;
    for (int i = 0; i < microbatches; ++i)
      all += loaded.pass_costs[program_.pass_at(lane, StepProgram::Pass::kForward, 0, i)]
                 .boundary.count;
    return (all + microbatches - 1) / microbatches;
  }
  [[nodiscard]] int last_chunk(int module) const {
    const schedule::PipelineModule& of = program_.pipeline().modules[module];
    return program_.map().position_of(module, of.virtual_stages() - 1).chunk;
  }

  const StepProgram& program_;
  const cost::StageCosts& costs_;
  const ReplicaFolding& folding_;
};

}  // namespace

LoadedStep load_step(const StepProgram& program, const cost::StageCosts& costs,
                     const ReplicaFolding& folding, const StepShapes& shapes) {
  return StepLoading(program, costs, folding).load(shapes);
}

}  // namespace tributary::simulate
