#include "plan/simulate/simulate.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/error.h"
#include "plan/shapes/deal_step.h"
#include "plan/simulate/engine/run_ahead.h"
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

bool have_equal_replicas(const StepShapes& shapes) {
  return std::all_of(shapes.begin(), shapes.end(), [](const auto& replicas) {
    return std::all_of(replicas.begin(), replicas.end(),
                       [&](const auto& each) { return each == replicas.front(); });
  });
}

/// A schedule of some number of microbatches, and what it runs on.
struct BuiltProgram {
  StepProgram program;
  Network network;
  std::vector<std::int64_t> lane_ranks;  // [lanes]
};

/// All that is needed to simulate any step of the plan.
class PlanSimulation {
 public:
  PlanSimulation(const config::Plan& plan, const StageCosts& costs, const config::Cluster& cluster,
                 const SimulationOptions& options)
      : plan_(plan),
        costs_(costs),
        cluster_(cluster),
        options_(options),
        whole_(schedule::pipeline_of(plan)),
        dealer_(plan, whole_, costs),
        runs_ahead_(RunAhead::has_any(plan)) {
    check_options();
    steps_are_equal_ = !is_disturbed() && find_equal_shapes();
    folded_ = fold_replicas(whole_, steps_are_equal_);
  }

  Simulation run() {
    std::vector<Nanoseconds> steps;
    std::optional<OutOfMemory> out_of_memory;
    PlayedStep shown = run_steps(steps, out_of_memory);
    Simulation result{.steps = std::move(steps),
                      .distribution = {},
                      .program = std::move(built_->program),
                      .network = std::move(built_->network)};
    result.distribution = distribution_of(result.steps);
    result.shown = shown.step;
    result.unsettled = unsettled_;
    result.out_of_memory = std::move(out_of_memory);
    result.lane_ranks = std::move(built_->lane_ranks);
    for (const std::int64_t ranks : result.lane_ranks) result.ranks += ranks;
    show_step(result, std::move(shown));
    result.failures =
        play_failures(options_.disturbance, result.ranks, result.steps, options_.seed);
    return result;
  }

 private:
  [[nodiscard]] bool is_disturbed() const {
    return options_.disturbance.straggler_share > 0 || options_.disturbance.anomaly_share > 0;
  }

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
    TRIB_REQUIRE(options_.batches_ahead < 0 || runs_ahead_,
                 .what = "plan: no module of the plan can work on later batches", .where = "ahead",
                 .found = str(options_.batches_ahead),
                 .expected = "a plan with a module of placement flow and train frozen");
    const double peak = cluster_.device.matrix_flops_per_s;
    TRIB_REQUIRE(std::isfinite(peak) && peak > 0, .what = "plan: device has no speed",
                 .where = "cluster.device.matrix_flops_per_s", .found = str(peak),
                 .expected = "a finite number above 0");
  }

  /// The microbatches that all steps have on one replica of each module, where all replicas have
  /// equal ones.
  bool find_equal_shapes() {
    const auto& [kind, recorded, batches, given] = options_.samples;
    if (kind == SampleSource::Kind::kFullMicrobatches) {
      equal_shapes_ = full_microbatches(plan_, fold_replicas(whole_, true).pipeline);
      return true;
    }
    std::vector<SampleSize> sizes;
    if (kind == SampleSource::Kind::kRecorded) sizes = recorded.sizes;
    if (kind == SampleSource::Kind::kBatches)
      for (const std::vector<SampleSize>& batch : *batches)
        sizes.insert(sizes.end(), batch.begin(), batch.end());
    if (sizes.empty() || std::any_of(sizes.begin(), sizes.end(),
                                     [&](const SampleSize& size) { return size != sizes.front(); }))
      return false;
    const std::int64_t samples = plan_.batch.global_samples;
    if (kind == SampleSource::Kind::kBatches) {
      if (!deals_evenly(whole_, samples)) return false;
      equal_shapes_ = equal_microbatches(whole_, sizes.front(), samples);
      return true;
    }
    equal_shapes_ =
        dealer_.deal(std::vector<SampleSize>(static_cast<std::size_t>(samples), sizes.front()));
    if (!have_equal_replicas(equal_shapes_)) return false;
    for (auto& replicas : equal_shapes_) replicas.resize(1);
    return true;
  }

  /// The schedule for so many microbatches; the last one is kept.
  const BuiltProgram& build(const StepShapes& shapes) {
    const int microbatches = static_cast<int>(shapes.front().front().size());
    if (built_ && built_->program.pipeline().microbatches == microbatches) return *built_;
    schedule::Pipeline pipeline = folded_.pipeline;
    pipeline.microbatches = microbatches;
    NetworkOptions options = options_.network;
    std::vector<bool> whole_batches;
    if (options_.batches_ahead >= 0) {
      whole_batches = RunAhead::edges_ahead(plan_, schedule::PipelineMap(pipeline));
      options.pool_microbatches = microbatches;
    }
    StepProgram program(lower_schedule(schedule_passes(pipeline), options_.buffers),
                        options_.buffers, std::move(whole_batches));
    Network network = network_of(plan_, cluster_, program, folded_.folding, options);
    std::vector<std::int64_t> ranks = ranks_of_lanes(plan_, program, folded_.folding);
    built_ = BuiltProgram{std::move(program), std::move(network), std::move(ranks)};
    return *built_;
  }

  /// A step, when everything in it happens, and what is held meanwhile.
  struct PlayedStep {
    std::int64_t step = 0;
    LoadedStep loaded = {};
    StepTimes times = {};
    bool is_steady = false;  // leaves what runs ahead as it found it
    std::vector<LaneMemory> memory = {};
    std::vector<std::vector<MemoryPoint>> memory_points = {};
  };

  /// All of it but the memory.
  [[nodiscard]] PlayedStep time(std::int64_t step, bool disturbed, RunAhead::Left& left) {
    const StepShapes shapes = shapes_of(step);
    const auto& [program, network, lane_ranks] = build(shapes);
    PlayedStep played{.step = step, .loaded = load_step(program, costs_, folded_.folding, shapes)};
    if (disturbed)
      disturb_step(program, options_.disturbance, lane_ranks, options_.seed,
                   static_cast<std::uint64_t>(step), played.loaded.load);
    const RunAhead::Left found = left;
    played.times = runs_ahead_ ? ahead(program, network).time(played.loaded.load, left)
                               : time_step(program, played.loaded.load, network);
    TRIB_REQUIRE(played.times.blocked.empty(), .what = "plan: step never ends",
                 .where = str("step ", step), .found = describe_blocked(program, played.times),
                 .fix = "give links or the pool more buffers");
    played.is_steady = left == found;
    return played;
  }

  [[nodiscard]] RunAhead ahead(const StepProgram& program, const Network& network) const {
    return {plan_, program, network, options_.batches_ahead};
  }

  [[nodiscard]] PlayedStep play(std::int64_t step, RunAhead::Left& left) {
    PlayedStep played = time(step, is_disturbed(), left);
    const StepProgram& program = built_->program;
    played.memory = follow_memory(program, played.loaded.load, played.times, costs_,
                                  played.loaded.pass_costs, &played.memory_points);
    return played;
  }

  [[nodiscard]] StepShapes shapes_of(std::int64_t step) {
    if (steps_are_equal_) return equal_shapes_;
    const auto number = static_cast<std::uint64_t>(step);
    const std::int64_t samples = plan_.batch.global_samples;
    const SampleSource& source = options_.samples;
    switch (source.kind) {
      case SampleSource::Kind::kFullMicrobatches:
        return full_microbatches(plan_, folded_.pipeline);
      case SampleSource::Kind::kGiven:
        return source.given[number % source.given.size()];
      case SampleSource::Kind::kMixture:
        return dealer_.deal(
            draw_mixture(options_.seed, number, samples, plan_.batch.capacity_tokens));
      case SampleSource::Kind::kRecorded:
        return dealer_.deal(draw_recorded(source.recorded, options_.seed, number, samples));
      case SampleSource::Kind::kBatches:
        return deal_samples(plan_, folded_.pipeline,
                            (*source.batches)[number % source.batches->size()]);
    }
    TRIB_RAISE(Fault::kBug, .what = "plan: no such source of samples");
  }

  [[nodiscard]] Nanoseconds with_scheduler(Nanoseconds step) const {
    return std::max(step, options_.scheduler);
  }

  /// How a step finds what runs ahead when steps like the first one, undisturbed, have come before
  /// it.
  [[nodiscard]] RunAhead::Left warm_up() {
    constexpr int kMostSteps = 32;
    RunAhead::Left left;
    unsettled_ = runs_ahead_;
    for (int step = 0; step < kMostSteps && unsettled_; ++step)
      unsettled_ = !time(0, false, left).is_steady;
    return left;
  }

  /// Plays all steps, keeps the shortage of the step that lacks most, and gives the median one.
  [[nodiscard]] PlayedStep run_steps(std::vector<Nanoseconds>& steps,
                                     std::optional<OutOfMemory>& shortage) {
    constexpr std::int64_t kMostKept = 64;  // a step is found again from one, in so small a part
    const std::int64_t apart = (options_.steps + kMostKept - 1) / kMostKept;
    PlayedStep last;
    bool outside_grid = false;
    RunAhead::Left left = warm_up();
    std::vector<RunAhead::Left> kept;  // by every so many steps
    for (std::int64_t step = 0; step < options_.steps; ++step) {
      if (step > 0 && steps_are_equal_ && last.is_steady) {
        steps.push_back(steps.back());
        continue;
      }
      if (step % apart == 0) kept.push_back(left);
      last = play(step, left);
      outside_grid = outside_grid || last.loaded.outside_grid;
      steps.push_back(with_scheduler(last.times.makespan));
      find_shortage(last, shortage);
    }
    const std::int64_t median =
        std::find(steps.begin(), steps.end(), distribution_of(steps).median) - steps.begin();
    PlayedStep shown = median == last.step ? std::move(last) : play_again(median, apart, kept);
    shown.loaded.outside_grid = outside_grid;
    return shown;
  }

  /// shape: kept [steps / apart] what steps 0, apart, 2 apart, ... found
  [[nodiscard]] PlayedStep play_again(std::int64_t step, std::int64_t apart,
                                      const std::vector<RunAhead::Left>& kept) {
    RunAhead::Left left = kept[step / apart];
    if (runs_ahead_)
      for (std::int64_t before = step - step % apart; before < step; ++before)
        (void)time(before, is_disturbed(), left);
    return play(step, left);
  }

  void show_step(Simulation& result, PlayedStep shown) const {
    const bool is_like_all =
        shown.is_steady && (steps_are_equal_ || (options_.steps == 1 && !is_disturbed()));
    result.load = std::move(shown.loaded.load);
    result.times = std::move(shown.times);
    result.accounts = account_lanes(result.program, result.load, result.times);
    result.bound = bound_step(result.program, result.load, result.network);
    if (runs_ahead_) {
      const RunAhead by_steps = ahead(result.program, result.network);
      by_steps.account(result.load, result.times, result.accounts);
      result.bound = by_steps.bound(result.load, is_like_all);
    }
    const Nanoseconds step = result.steps[result.shown];
    for (LaneAccount& account : result.accounts)
      account[TimeUse::kWaitPlan] += step - result.times.makespan;
    result.critical_path = critical_path(result.program, result.network, result.times);
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

  void find_shortage(const PlayedStep& played, std::optional<OutOfMemory>& shortage) const {
    const Bytes available = cluster_.device.memory - cluster_.device.reserve;
    const auto fullest = std::max_element(
        played.memory.begin(), played.memory.end(),
        [](const LaneMemory& a, const LaneMemory& b) { return a.total() < b.total(); });
    const Bytes needed = fullest->total();
    if (needed <= available || (shortage && needed <= shortage->needed)) return;
    const auto lane = static_cast<int>(fullest - played.memory.begin());
    shortage = OutOfMemory{.lane = built_->program.map().describe(lane),
                           .step = played.step,
                           .needed = needed,
                           .available = available,
                           .memory = *fullest};
  }

  const config::Plan& plan_;
  const StageCosts& costs_;
  const config::Cluster& cluster_;
  const SimulationOptions& options_;
  schedule::Pipeline whole_;
  StepDealer dealer_;
  bool runs_ahead_;
  FoldedPipeline folded_;
  bool steps_are_equal_ = false;
  bool unsettled_ = false;
  StepShapes equal_shapes_;
  std::optional<BuiltProgram> built_;
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
