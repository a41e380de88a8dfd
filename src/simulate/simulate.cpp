#include "simulate/simulate.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "simulate/step_player.h"

namespace tributary::simulate {
namespace {

void check_options(const config::Plan& plan, const config::Cluster& cluster,
                   const SimulationOptions& options) {
  check_disturbance(options.disturbance);
  TRIB_REQUIRE(options.steps >= 1 && options.steps <= kMaxSteps,
               .what = "simulate: number of steps cannot be simulated", .where = "steps",
               .found = str(options.steps), .expected = str("1 to ", kMaxSteps));
  TRIB_REQUIRE(options.network.pool_microbatches >= 1 && options.scheduler.count >= 0,
               .what = "simulate: simulation cannot be set up so",
               .found = str(options.network.pool_microbatches, " microbatches in the pool, ",
                            options.scheduler, " of the scheduler"),
               .expected = "at least 1 and 0 ns");
  RunAhead::check_batches_ahead(plan, options.batches_ahead);
  const double peak = cluster.device.matrix_flops_per_s;
  TRIB_REQUIRE(std::isfinite(peak) && peak > 0, .what = "simulate: device has no speed",
               .where = "cluster.device.matrix_flops_per_s", .found = str(peak),
               .expected = "a finite number above 0");
}

/// Plays the steps one after another, and shows the median one.
class StepSeries {
 public:
  StepSeries(const config::Plan& plan, const cost::StageCosts& costs,
             const config::Cluster& cluster, const SimulationOptions& options)
      : cluster_(cluster), options_(options), player_(plan, costs, cluster, options) {}

  Simulation run() {
    std::vector<Nanoseconds> steps;
    PlayedStep shown = run_steps(steps);
    BuiltProgram built = player_.release_built();
    Simulation result{.steps = std::move(steps),
                      .distribution = {},
                      .program = std::move(built.program),
                      .network = std::move(built.network)};
    result.distribution = distribution_of(result.steps);
    result.shown = shown.step;
    result.unsettled = unsettled_;
    result.fullest = fullest_;
    result.out_of_memory = find_shortage(result.program.map());
    result.lane_ranks = std::move(built.lane_ranks);
    for (int lane = 0; lane < result.program.lanes(); ++lane)  // colocated ranks count once
      if (!result.program.map().is_colocated(lane)) result.ranks += result.lane_ranks[lane];
    show_step(result, std::move(shown));
    result.failures =
        play_failures(options_.disturbance, result.ranks, result.steps, options_.seed);
    return result;
  }

 private:
  [[nodiscard]] Nanoseconds with_scheduler(Nanoseconds step) const {
    return std::max(step, options_.scheduler);
  }

  /// Repeats the first step, undisturbed, until work done ahead does not change; returns that
  /// state.
  [[nodiscard]] RunAhead::Left warm_up() {
    // Encoders twice as fast as the backbone get N batches ahead in 2 N steps.
    const int max_steps = 32 + 2 * std::max(0, options_.batches_ahead);
    RunAhead::Left left;
    unsettled_ = player_.runs_ahead();
    for (int step = 0; step < max_steps && unsettled_; ++step)
      unsettled_ = !player_.time(0, false, left).is_steady;
    return left;
  }

  /// Plays all steps, and returns the median one.
  [[nodiscard]] PlayedStep run_steps(std::vector<Nanoseconds>& steps) {
    constexpr std::int64_t kMaxKept = 64;  // states from which a step can be played again
    const std::int64_t apart = (options_.steps + kMaxKept - 1) / kMaxKept;
    PlayedStep last;
    bool outside_grid = false;
    RunAhead::Left left = warm_up();
    std::vector<RunAhead::Left> kept;  // the state of every `apart`-th step
    for (std::int64_t step = 0; step < options_.steps; ++step) {
      if (step > 0 && player_.steps_are_equal() && last.is_steady) {
        steps.push_back(steps.back());
        continue;
      }
      if (step % apart == 0) kept.push_back(left);
      last = player_.play(step, left);
      outside_grid = outside_grid || last.loaded.outside_grid;
      steps.push_back(with_scheduler(last.times.makespan));
      find_fullest(last);
    }
    const std::int64_t median =
        std::find(steps.begin(), steps.end(), distribution_of(steps).median) - steps.begin();
    PlayedStep shown = median == last.step ? std::move(last) : play_again(median, apart, kept);
    shown.loaded.outside_grid = outside_grid;
    return shown;
  }

  /// shape: kept [steps / apart] the state at the beginning of steps 0, apart, 2 apart, ...
  [[nodiscard]] PlayedStep play_again(std::int64_t step, std::int64_t apart,
                                      const std::vector<RunAhead::Left>& kept) {
    RunAhead::Left left = kept[step / apart];
    if (player_.runs_ahead())
      for (std::int64_t before = step - step % apart; before < step; ++before)
        (void)player_.time(before, player_.is_disturbed(), left);
    return player_.play(step, left);
  }

  void show_step(Simulation& result, PlayedStep shown) const {
    const bool is_like_all = shown.is_steady && (player_.steps_are_equal() ||
                                                 (options_.steps == 1 && !player_.is_disturbed()));
    result.load = std::move(shown.loaded.load);
    result.times = std::move(shown.times);
    result.accounts = account_lanes(result.program, result.load, result.times);
    if (player_.runs_ahead()) {
      const RunAhead by_steps = player_.ahead(result.program, result.network);
      by_steps.account(result.load, result.times, result.accounts);
      result.ahead = by_steps.lanes_ahead(is_like_all);
    }
    const Nanoseconds step = result.steps[result.shown];
    for (LaneAccount& account : result.accounts)
      account[TimeUse::kWaitPlan] += step - result.times.makespan;
    result.critical_path = critical_path(result.program, result.network, result.times);
    result.outside_grid = shown.loaded.outside_grid;
    result.memory = std::move(shown.memory);
    result.memory_points = std::move(shown.memory_points);
    const double seconds = seconds_of(step);
    const double peak =
        seconds * cluster_.device.matrix_flops_per_s * static_cast<double>(result.ranks);
    result.utilisation = {
        .mfu = peak > 0 ? shown.loaded.flops.all.causal / peak : 0,
        .peak = peak,
        .flops = shown.loaded.flops,
        .formula = str("FLOPs of forward, backward and weight gradients as trained, causal "
                       "attention counted half, without recompute / (step * ",
                       result.ranks, " ranks * ", cluster_.device.matrix_flops_per_s, " FLOP/s)")};
  }

  void find_fullest(const PlayedStep& played) {
    const auto fullest = std::max_element(
        played.memory.begin(), played.memory.end(),
        [](const LaneMemory& a, const LaneMemory& b) { return a.total() < b.total(); });
    if (played.step > 0 && fullest->total() <= fullest_.memory.total()) return;
    fullest_ = {.lane = static_cast<int>(fullest - played.memory.begin()),
                .step = played.step,
                .memory = *fullest};
  }

  [[nodiscard]] std::optional<OutOfMemory> find_shortage(const schedule::PipelineMap& map) const {
    const Bytes available = cluster_.device.memory - cluster_.device.reserve;
    const Bytes needed = fullest_.memory.total();
    if (needed <= available) return std::nullopt;
    return OutOfMemory{.lane = map.describe(fullest_.lane),
                       .step = fullest_.step,
                       .needed = needed,
                       .available = available,
                       .memory = fullest_.memory};
  }

  const config::Cluster& cluster_;
  const SimulationOptions& options_;
  StepPlayer player_;
  FullestLane fullest_;
  bool unsettled_ = false;
};

}  // namespace

Simulation simulate(const config::Plan& plan, const cost::StageCosts& costs,
                    const config::Cluster& cluster, const SimulationOptions& options) {
  check_options(plan, cluster, options);
  return StepSeries(plan, costs, cluster, options).run();
}

StepBound bound_of(const Simulation& simulation) {
  return bound_step(simulation.program, simulation.load, simulation.network, simulation.ahead);
}

}  // namespace tributary::simulate
