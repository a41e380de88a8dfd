#include "plan/simulate/simulate.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/error.h"
#include "plan/simulate/load_step.h"
#include "schedule/pipeline/plan_pipeline.h"

namespace tributary::plan {
namespace {

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
    const bool all_equal =
        (options.samples.kind == SampleSource::Kind::kFullMicrobatches || find_equal_sample()) &&
        options.disturbance.straggler_share == 0 && options.disturbance.anomaly_share == 0;
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
    show_step(result, run_steps(result));
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

  /// The one size that all samples have, where it makes the inputs of all replicas equal.
  bool find_equal_sample() {
    const auto& [kind, recorded, batches, given] = options_.samples;
    std::vector<SampleSize> sizes;
    if (kind == SampleSource::Kind::kRecorded) sizes = recorded.sizes;
    if (kind == SampleSource::Kind::kBatches)
      for (const std::vector<SampleSize>& batch : *batches)
        sizes.insert(sizes.end(), batch.begin(), batch.end());
    if (sizes.empty() || std::any_of(sizes.begin(), sizes.end(),
                                     [&](const SampleSize& size) { return size != sizes.front(); }))
      return false;
    if (!deals_evenly(whole_, plan_.batch.global_samples)) return false;
    equal_sample_ = sizes.front();
    return true;
  }

  /// A step, when everything in it happens, and what is held meanwhile.
  struct PlayedStep {
    LoadedStep loaded = {};
    StepTimes times = {};
    std::vector<LaneMemory> memory = {};
    std::vector<std::vector<MemoryPoint>> memory_points = {};
  };

  [[nodiscard]] PlayedStep play(const Simulation& result, std::int64_t step) const {
    PlayedStep played{.loaded =
                          load_step(result.program, costs_, folded_.folding, shapes_of(step))};
    const Disturbance& disturbance = options_.disturbance;
    if (disturbance.straggler_share > 0 || disturbance.anomaly_share > 0)
      disturb_step(result.program, disturbance, result.lane_ranks, options_.seed,
                   static_cast<std::uint64_t>(step), played.loaded.load);
    played.times = time_step(result.program, played.loaded.load, result.network);
    TRIB_REQUIRE(played.times.blocked.empty(), .what = "plan: step never ends",
                 .where = str("step ", step),
                 .found = describe_blocked(result.program, played.times),
                 .fix = "give links or the pool more buffers");
    played.memory = follow_memory(result.program, played.loaded.load, played.times, costs_,
                                  played.loaded.pass_costs, &played.memory_points);
    return played;
  }

  [[nodiscard]] StepShapes shapes_of(std::int64_t step) const {
    const auto number = static_cast<std::uint64_t>(step);
    const std::int64_t samples = plan_.batch.global_samples;
    if (steps_are_equal_ && equal_sample_)
      return equal_microbatches(whole_, *equal_sample_, samples);
    switch (options_.samples.kind) {
      case SampleSource::Kind::kFullMicrobatches:
        return full_microbatches(plan_, folded_.pipeline);
      case SampleSource::Kind::kGiven:
        return options_.samples.given;
      case SampleSource::Kind::kMixture:
        return deal_samples(plan_, folded_.pipeline, draw_mixture(options_.seed, number, samples));
      case SampleSource::Kind::kRecorded:
        return deal_samples(
            plan_, folded_.pipeline,
            draw_recorded(options_.samples.recorded, options_.seed, number, samples));
      case SampleSource::Kind::kBatches: {
        const auto& batches = *options_.samples.batches;
        return deal_samples(plan_, folded_.pipeline, batches[number % batches.size()]);
      }
    }
    TRIB_RAISE(Fault::kBug, .what = "plan: no such source of samples");
  }

  [[nodiscard]] Nanoseconds with_scheduler(Nanoseconds step) const {
    return std::max(step, options_.scheduler);
  }

  /// Plays all steps, and keeps the shortage of the step that lacks most.
  [[nodiscard]] PlayedStep run_steps(Simulation& result) const {
    PlayedStep last;
    for (std::int64_t step = 0; step < options_.steps; ++step) {
      if (step > 0 && steps_are_equal_) {
        result.steps.push_back(result.steps.front());
        continue;
      }
      last = play(result, step);
      result.steps.push_back(with_scheduler(last.times.makespan));
      find_shortage(result, last.memory);
    }
    result.distribution = distribution_of(result.steps);
    result.shown = std::find(result.steps.begin(), result.steps.end(), result.distribution.median) -
                   result.steps.begin();
    const bool is_last = steps_are_equal_ || result.shown == options_.steps - 1;
    return is_last ? std::move(last) : play(result, result.shown);
  }

  void show_step(Simulation& result, PlayedStep shown) const {
    result.load = std::move(shown.loaded.load);
    result.times = std::move(shown.times);
    result.accounts = account_lanes(result.program, result.load, result.times);
    const Nanoseconds step = result.steps[result.shown];
    for (LaneAccount& account : result.accounts)
      account[TimeUse::kWaitPlan] += step - result.times.makespan;
    result.critical_path = critical_path(result.program, result.network, result.times);
    result.bound = bound_step(result.program, result.load, result.network);
    result.outside_grid = shown.loaded.outside_grid;
    result.memory = std::move(shown.memory);
    result.memory_points = std::move(shown.memory_points);
    const double seconds = 1e-9 * static_cast<double>(step.count);
    const double peak = cluster_.device.matrix_flops_per_s * static_cast<double>(result.ranks);
    result.utilisation = {
        .mfu = seconds > 0 ? shown.loaded.flops / (seconds * peak) : 0,
        .flops = shown.loaded.flops,
        .formula = str("FLOPs of forward, backward and weight gradients as trained, causal "
                       "attention counted half, without recompute / (step * ",
                       result.ranks, " ranks * ", cluster_.device.matrix_flops_per_s, " FLOP/s)")};
  }

  void find_shortage(Simulation& result, const std::vector<LaneMemory>& memory) const {
    const Bytes available = cluster_.device.memory - cluster_.device.reserve;
    int fullest = 0;
    for (int lane = 1; lane < result.program.lanes(); ++lane)
      if (memory[lane].total() > memory[fullest].total()) fullest = lane;
    const Bytes needed = memory[fullest].total();
    if (needed <= available) return;
    if (result.out_of_memory && needed <= result.out_of_memory->needed) return;
    result.out_of_memory = OutOfMemory{.lane = result.program.map().describe(fullest),
                                       .step = std::ssize(result.steps) - 1,
                                       .needed = needed,
                                       .available = available,
                                       .memory = memory[fullest]};
  }

  const config::Plan& plan_;
  const StageCosts& costs_;
  const config::Cluster& cluster_;
  const SimulationOptions& options_;
  schedule::Pipeline whole_;
  FoldedPipeline folded_;
  bool steps_are_equal_ = false;
  std::optional<SampleSize> equal_sample_;
};

}  // namespace

StepDistribution distribution_of(std::vector<Nanoseconds> steps) {
  std::sort(steps.begin(), steps.end());
  double sum = 0;
  double squares = 0;
  for (const Nanoseconds step : steps) sum += static_cast<double>(step.count);
  const double mean = sum / static_cast<double>(steps.size());
  for (const Nanoseconds step : steps)
    squares += (static_cast<double>(step.count) - mean) * (static_cast<double>(step.count) - mean);
  const auto at = [&steps](double share) {  // nearest rank
    const double rank = std::ceil(share * static_cast<double>(steps.size()));
    return steps[static_cast<std::size_t>(std::max(1.0, rank)) - 1];
  };
  return {.mean = {std::llround(mean)},
          .deviation = {std::llround(std::sqrt(squares / static_cast<double>(steps.size())))},
          .least = steps.front(),
          .median = at(0.5),
          .percentile_95 = at(0.95),
          .largest = steps.back()};
}

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
