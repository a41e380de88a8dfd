#include "plan/simulate/simulate.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/error.h"
#include "schedule/pipeline/plan_pipeline.h"

namespace tributary::plan {
namespace {

using schedule::Op;

/// One step: what its passes cost, and how long everything takes.
struct Loaded {
  StepLoad load;
  std::vector<StageCost> pass_costs;  // [actions]
  double flops = 0;
  bool outside_grid = false;
};

bool are_equal(const PassShape& a, const PassShape& b) {
  return a.tokens == b.tokens && a.squared_tokens == b.squared_tokens && a.sequences == b.sequences;
}
bool are_equal(const MicrobatchShape& a, const MicrobatchShape& b) {
  return are_equal(a.backbone, b.backbone) && are_equal(a.encoder, b.encoder);
}

/// Fills the load of a step from the costs of its microbatches.
class StepLoading {
 public:
  StepLoading(const StepProgram& program, const StageCosts& costs, const ReplicaFolding& folding)
      : program_(program), costs_(costs), folding_(folding) {}

  Loaded load(const StepShapes& shapes) const {
    Loaded loaded;
    const auto actions = static_cast<std::size_t>(program_.actions());
    loaded.load.duration.resize(actions);
    loaded.load.exposed.resize(actions);
    loaded.pass_costs.resize(actions);
    loaded.load.bytes.resize(program_.messages().size());
    for (int lane = 0; lane < program_.lanes(); ++lane) load_lane(lane, shapes, loaded);
    // Messages take their size from passes, of other lanes too.
    for (int action = 0; action < program_.actions(); ++action) load_action(action, loaded);
    return loaded;
  }

 private:
  void load_lane(int lane, const StepShapes& shapes, Loaded& loaded) const {
    const schedule::Lane of = program_.map().at(lane);
    const int chunks = program_.pipeline().modules[of.module].chunks;
    const std::vector<MicrobatchShape>& microbatches = shapes[of.module][of.replica];
    for (int chunk = 0; chunk < chunks; ++chunk) {
      const int at = program_.map().virtual_stage(of.module, of.stage, chunk);
      StageCost cost;
      for (std::size_t i = 0; i < microbatches.size(); ++i) {
        if (i == 0 || !are_equal(microbatches[i], microbatches[i - 1]))
          cost = costs_.cost(of.module, at, microbatches[i]);
        load_passes(lane, chunk, static_cast<int>(i), cost, loaded);
        loaded.flops += cost.flops * folding_.stands_for[of.module];
        loaded.outside_grid = loaded.outside_grid || cost.outside_grid;
      }
    }
  }

  void load_passes(int lane, int chunk, int microbatch, const StageCost& cost,
                   Loaded& loaded) const {
    using Pass = StepProgram::Pass;
    for (const Pass pass : {Pass::kForward, Pass::kInputGradient, Pass::kWeightGradient}) {
      const int action = program_.pass_at(lane, pass, chunk, microbatch);
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

  void load_action(int action, Loaded& loaded) const {
    const schedule::Lane of = program_.map().at(program_.lane_of(action));
    const schedule::Action& each = program_.action(action);
    switch (program_.kind(action)) {
      case StepKind::kReduce:
        loaded.load.duration[action] =
            costs_.state(of.module, program_.map().virtual_stage(of.module, of.stage, each.chunk))
                .reduction;
        break;
      case StepKind::kOptimize:
        for (int chunk = 0; chunk < program_.pipeline().modules[of.module].chunks; ++chunk)
          loaded.load.duration[action] +=
              costs_.state(of.module, program_.map().virtual_stage(of.module, of.stage, chunk))
                  .optimizer_step;
        break;
      case StepKind::kSend:
        load_messages(action, loaded);
        break;
      default:
        break;
    }
  }

  /// Activations and gradients of a microbatch are of one size. What leaves a module is what its
  /// last virtual stage gives on, dealt over the replicas at the other end; its gradients are as
  /// large, and are dealt the other way.
  void load_messages(int action, Loaded& loaded) const {
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
      if (channel.edge >= 0) {
        const std::int64_t takers =
            program_.pipeline().modules[program_.map().at(taker).module].replicas;
        bytes = (bytes + takers - 1) / takers;
      }
      loaded.load.bytes[message] = {bytes};
    }
  }
  [[nodiscard]] int last_chunk(int module) const {
    const schedule::PipelineModule& of = program_.pipeline().modules[module];
    return program_.map().position_of(module, of.virtual_stages() - 1).chunk;
  }

  const StepProgram& program_;
  const StageCosts& costs_;
  const ReplicaFolding& folding_;
};

StepDistribution distribution_of(std::vector<Nanoseconds> steps) {
  std::sort(steps.begin(), steps.end());
  double sum = 0;
  double squares = 0;
  for (const Nanoseconds step : steps) sum += static_cast<double>(step.count);
  const double mean = sum / static_cast<double>(steps.size());
  for (const Nanoseconds step : steps)
    squares += (static_cast<double>(step.count) - mean) * (static_cast<double>(step.count) - mean);
  const auto at = [&steps](double share) {
    return steps[static_cast<std::size_t>(share * static_cast<double>(steps.size() - 1))];
  };
  return {.mean = {std::llround(mean)},
          .deviation = {std::llround(std::sqrt(squares / static_cast<double>(steps.size())))},
          .least = steps.front(),
          .median = at(0.5),
          .percentile_95 = at(0.95),
          .largest = steps.back()};
}

/// The ranks that each simulated lane stands for.
std::vector<std::int64_t> ranks_of_lanes(const config::Plan& plan, const StepProgram& program,
                                         const ReplicaFolding& folding) {
  std::vector<std::int64_t> ranks;
  for (int lane = 0; lane < program.lanes(); ++lane) {
    const int module = program.map().at(lane).module;
    const config::MeshShape& mesh = plan.find(program.pipeline().modules[module].name)->mesh;
    ranks.push_back(mesh.cp * mesh.ulysses * mesh.tp * folding.stands_for[module]);
  }
  return ranks;
}

/// All that is needed to simulate any step of the plan.
class PlanSimulation {
 public:
  PlanSimulation(const config::Plan& plan, const StageCosts& costs, const config::Cluster& cluster,
                 const SimulationOptions& options)
      : plan_(plan), costs_(costs), cluster_(cluster), options_(options) {
    check_options();
    whole_ = schedule::pipeline_of(plan);
    const bool all_equal = options.samples.kind == SampleSource::Kind::kFullMicrobatches &&
                           options.disturbance.straggler_share == 0 &&
                           options.disturbance.anomaly_share == 0;
    folded_ = fold_replicas(whole_, all_equal);
    steps_are_equal_ = all_equal;
  }

  Simulation run() {
    StepProgram program(lower_schedule(schedule_passes(folded_.pipeline), options_.buffers),
                        options_.buffers);
    Network network = network_of(plan_, cluster_, program, folded_.folding, options_.network);
    Simulation result{.steps = {},
                      .distribution = {},
                      .program = std::move(program),
                      .network = std::move(network)};
    result.lane_ranks = ranks_of_lanes(plan_, result.program, folded_.folding);
    for (const std::int64_t ranks : result.lane_ranks) result.ranks += ranks;
    run_steps(result);
    show_step(result);
    result.failures =
        play_failures(options_.disturbance, result.ranks, result.steps, options_.seed);
    return result;
  }

 private:
  void check_options() const {
    check_disturbance(options_.disturbance);
    TRIB_REQUIRE(options_.steps >= 1 && options_.steps <= 1'000'000,
                 .what = "plan: number of steps cannot be simulated", .where = "steps",
                 .found = str(options_.steps), .expected = "1 to 1000000");
    TRIB_REQUIRE(options_.network.pool_microbatches >= 1 && options_.scheduler.count >= 0,
                 .what = "plan: simulation cannot be set up so",
                 .found = str(options_.network.pool_microbatches, " microbatches in the pool, ",
                              options_.scheduler, " of the scheduler"),
                 .expected = "at least 1 and 0 ns");
    const double peak = cluster_.device.matrix_flops_per_s;
    TRIB_REQUIRE(std::isfinite(peak) && peak > 0, .what = "plan: device has no speed",
                 .where = "cluster.device.matrix_flops_per_s", .found = str(peak),
                 .expected = "a finite number above 0");
  }

  [[nodiscard]] Loaded load_step(const StepProgram& program, std::int64_t step,
                                 const std::vector<std::int64_t>& ranks) const {
    const StepLoading loading(program, costs_, folded_.folding);
    Loaded loaded = loading.load(shapes_of(step));
    const Disturbance& disturbance = options_.disturbance;
    if (disturbance.straggler_share > 0 || disturbance.anomaly_share > 0)
      disturb_step(program, disturbance, ranks, options_.seed, static_cast<std::uint64_t>(step),
                   loaded.load);
    return loaded;
  }

  [[nodiscard]] StepShapes shapes_of(std::int64_t step) const {
    const auto number = static_cast<std::uint64_t>(step);
    const std::int64_t samples = plan_.batch.global_samples;
    switch (options_.samples.kind) {
      case SampleSource::Kind::kFullMicrobatches:
        return full_microbatches(plan_, folded_.pipeline);
      case SampleSource::Kind::kMixture:
        return deal_samples(plan_, folded_.pipeline, draw_mixture(options_.seed, number, samples));
      case SampleSource::Kind::kRecorded:
        return deal_samples(
            plan_, folded_.pipeline,
            draw_recorded(options_.samples.recorded, options_.seed, number, samples));
    }
    TRIB_RAISE(Fault::kBug, .what = "plan: no such source of samples");
  }

  [[nodiscard]] Nanoseconds with_scheduler(Nanoseconds step) const {
    return std::max(step, options_.scheduler);
  }

  void run_steps(Simulation& result) const {
    for (std::int64_t step = 0; step < options_.steps; ++step) {
      if (step > 0 && steps_are_equal_) {
        result.steps.push_back(result.steps.front());
        continue;
      }
      const Loaded loaded = load_step(result.program, step, result.lane_ranks);
      const StepTimes times = time_step(result.program, loaded.load, result.network);
      TRIB_REQUIRE(times.blocked.empty(), .what = "plan: step never ends",
                   .found = describe_blocked(result.program, times),
                   .fix = "give links or the pool more buffers");
      result.steps.push_back(with_scheduler(times.makespan));
    }
    result.distribution = distribution_of(result.steps);
    result.shown = std::find(result.steps.begin(), result.steps.end(), result.distribution.median) -
                   result.steps.begin();
  }

  void show_step(Simulation& result) const {
    Loaded loaded = load_step(result.program, result.shown, result.lane_ranks);
    result.load = std::move(loaded.load);
    result.times = time_step(result.program, result.load, result.network);
    result.accounts = account_lanes(result.program, result.load, result.times);
    result.critical_path = critical_path(result.program, result.network, result.times);
    result.bound = bound_step(result.program, result.load, result.network);
    result.outside_grid = loaded.outside_grid;
    result.memory = follow_memory(result.program, result.load, result.times, costs_,
                                  loaded.pass_costs, &result.memory_points);
    find_shortage(result);
    const double seconds = 1e-9 * static_cast<double>(result.steps[result.shown].count);
    const double peak = cluster_.device.matrix_flops_per_s * static_cast<double>(result.ranks);
    result.utilisation = {
        .mfu = seconds > 0 ? loaded.flops / (seconds * peak) : 0,
        .flops = loaded.flops,
        .formula = str("FLOPs of forward, backward and weight gradients as trained, causal "
                       "attention counted half, without recompute / (step * ",
                       result.ranks, " ranks * ", cluster_.device.matrix_flops_per_s, " FLOP/s)")};
  }

  void find_shortage(Simulation& result) const {
    const Bytes available = cluster_.device.memory - cluster_.device.reserve;
    int fullest = 0;
    for (int lane = 1; lane < result.program.lanes(); ++lane)
      if (result.memory[lane].total() > result.memory[fullest].total()) fullest = lane;
    if (result.memory[fullest].total() <= available) return;
    result.out_of_memory = OutOfMemory{.lane = result.program.map().describe(fullest),
                                       .needed = result.memory[fullest].total(),
                                       .available = available,
                                       .memory = result.memory[fullest]};
  }

  const config::Plan& plan_;
  const StageCosts& costs_;
  const config::Cluster& cluster_;
  const SimulationOptions& options_;
  schedule::Pipeline whole_;
  FoldedPipeline folded_;
  bool steps_are_equal_ = false;
};

}  // namespace

FoldedPipeline fold_replicas(const schedule::Pipeline& pipeline, bool all_equal) {
  FoldedPipeline folded{.pipeline = pipeline, .folding = {}};
  for (schedule::PipelineModule& module : folded.pipeline.modules) {
    folded.folding.stands_for.push_back(all_equal ? module.replicas : 1);
    if (all_equal) module.replicas = 1;
  }
  return folded;
}

Simulation simulate(const config::Plan& plan, const StageCosts& costs,
                    const config::Cluster& cluster, const SimulationOptions& options) {
  return PlanSimulation(plan, costs, cluster, options).run();
}

}  // namespace tributary::plan
