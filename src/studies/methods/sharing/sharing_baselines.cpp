#include "studies/methods/sharing/sharing_baselines.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <numeric>

#include "core/error.h"
#include "plan/sharing/interference.h"
#include "plan/sharing/staging.h"
#include "studies/methods/sharing/sharing_memory.h"

namespace tributary::studies {
namespace {

std::int64_t width_of(const plan::PlacedModule& place) {
  return std::countr_zero(static_cast<std::uint64_t>(place.devices));
}

SharingAnswer to_answer(const plan::SharingProblem& problem, const plan::Staging& staging) {
  SharingAnswer answer = {.certificate = staging.certificate};
  for (const plan::SharedStage& stage : staging.stages) {
    BaselineWave wave = {.time = stage.time};
    for (const plan::PlacedModule& place : stage.placed) {
      WaveModule& made = wave.modules.emplace_back(WaveModule{.module = place.module,
                                                              .devices = place.devices,
                                                              .units = place.share,
                                                              .time = place.time});
      if (!problem.modules[place.module].busy.empty())
        made.busy = problem.busy(place.module, width_of(place), place.share);
      made.on.resize(static_cast<std::size_t>(place.devices));
      std::iota(made.on.begin(), made.on.end(), place.first_device);
    }
    answer.waves.push_back(std::move(wave));
  }
  return hold_to_memory(problem, std::move(answer));
}

/// Sets the times of a stage and its modules from the slowdown that modules on one device cause.
void slow_together(const plan::SharingProblem& problem, plan::SharedStage& stage) {
  std::vector<plan::DeviceTraffic> traffic(static_cast<std::size_t>(problem.devices));
  for (const plan::PlacedModule& place : stage.placed) {
    const double own = problem.bandwidth(place.module, width_of(place), place.share);
    for (std::int64_t i = 0; i < place.devices; ++i) traffic[place.first_device + i].add(own);
  }
  stage.time = {};
  for (plan::PlacedModule& place : stage.placed) {
    const Nanoseconds alone = problem.time(place.module, width_of(place), place.share);
    const double own = problem.bandwidth(place.module, width_of(place), place.share);
    place.time = {};
    for (std::int64_t i = 0; i < place.devices; ++i)
      place.time = std::max(place.time, plan::slowed(problem.interference, alone, own,
                                                     traffic[place.first_device + i]));
    stage.time = std::max(stage.time, place.time);
  }
}

/// The best stages, or waves on whole devices where these are better: numbers of devices between
/// powers of two, and modules cut between layers, are not in the space of stages. The bound is the
/// min of both spaces' bounds. Where the fastest stages leave too much on a device, running each
/// module on all devices may still fit. Pipelines of microbatches, where a module starts before the
/// previous ones end, are not covered by the proof, but the best one found may win.
SharingAnswer solve_exact(const plan::SharingProblem& problem) {
  SharingAnswer best = to_answer(problem, plan::group_stages(problem));
  for (const auto solve : {solve_distmm, solve_spindle, solve_temporal}) {
    SharingAnswer other = solve(problem);
    if (other.certificate.status == plan::Status::kInfeasible) continue;
    plan::Certificate joined = plan::join(best.certificate, other.certificate);
    const bool is_better = best.certificate.status == plan::Status::kInfeasible ||
                           other.certificate.value < best.certificate.value;
    if (is_better) best = std::move(other);
    best.certificate = std::move(joined);
  }
  SharingAnswer piped = solve_distmm_pipe(problem);
  const bool is_better = best.certificate.status == plan::Status::kInfeasible ||
                         piped.certificate.value < best.certificate.value;
  if (piped.certificate.status == plan::Status::kInfeasible || !is_better) return best;
  piped.certificate = plan::join(best.certificate, piped.certificate);
  return piped;
}

constexpr std::array kBaselines = {
    SharingBaseline{"megatron_temporal", "Mosaic, figure 3a", solve_temporal},
    SharingBaseline{"distmm", "Huang 2024, DistMM", solve_distmm},
    SharingBaseline{"distmm_pipe", "Huang 2024, DistMM-Pipe", solve_distmm_pipe},
    SharingBaseline{"spindle", "Wang 2025, Spindle", solve_spindle},
    SharingBaseline{"mosaic", "Mosaic, algorithm 1", solve_mosaic},
    SharingBaseline{"mosaic_unaware", "Mosaic, figure 12b", solve_mosaic_unaware},
    SharingBaseline{"exact", "ours", solve_exact},
};

}  // namespace

std::span<const SharingBaseline> sharing_baselines() { return kBaselines; }

std::vector<std::vector<std::int32_t>> levels_of(const plan::SharingProblem& problem) {
  std::vector<std::vector<std::int32_t>> levels;
  std::vector<std::size_t> depth;
  for (std::size_t module = 0; module < problem.modules.size(); ++module) {
    std::size_t mine = 0;
    for (const std::int32_t before : problem.modules[module].after) {
      mine = std::max(mine, depth[before] + 1);
    }
    depth.push_back(mine);
    if (levels.size() <= mine) levels.resize(mine + 1);
    levels[mine].push_back(static_cast<std::int32_t>(module));
  }
  return levels;
}

Nanoseconds time_on_devices(const plan::SharingProblem& problem, std::int64_t module,
                            double devices) {
  const std::vector<Nanoseconds>& known = problem.modules[module].whole;
  if (!known.empty()) {
    // Devices beyond the useful number stay idle; between two numbers it interpolates.
    const std::int64_t fits = min_devices(problem, module);
    const auto min = [&](double count) {
      const auto max = std::clamp<std::ptrdiff_t>(std::llround(count), 1, std::ssize(known));
      const auto first = known.begin() + (max >= fits ? fits - 1 : 0);
      return static_cast<double>(std::min_element(first, known.begin() + max)->count);
    };
    const double below = std::floor(devices);
    if (below < 1) return {std::llround(min(1) / devices)};
    return {std::llround(min(below) + (devices - below) * (min(below + 1) - min(below)))};
  }
  const auto whole = [&](std::int64_t width) {
    std::int64_t min = problem.time(module, 0, problem.units).count;
    for (std::int64_t narrower = 1; narrower <= width; ++narrower) {
      min = std::min(min, problem.time(module, narrower, problem.units).count);
    }
    return static_cast<double>(min);
  };
  const double place = std::log2(devices);
  const auto width = std::clamp<std::int64_t>(static_cast<std::int64_t>(std::floor(place)), 0,
                                              problem.widths() - 1);
  // A part of a device takes longer in proportion.
  if (place < 0) return {std::llround(whole(0) / devices)};
  if (width == problem.widths() - 1) return {std::llround(whole(width))};
  const double part = place - static_cast<double>(width);
  return {std::llround(whole(width) + part * (whole(width + 1) - whole(width)))};
}

WaveModule on_whole_devices(const plan::SharingProblem& problem, std::int32_t module,
                            std::int64_t devices, double part) {
  const auto time_on = [&](std::int64_t count) {
    return time_on_devices(problem, module, static_cast<double>(count));
  };
  const Nanoseconds time = time_on(devices);
  WaveModule made{.module = module,
                  .devices = devices,
                  .units = problem.units,
                  .part = part,
                  .time = {std::llround(part * static_cast<double>(time.count))}};
  const std::vector<double>& busy = problem.modules[module].whole_busy;
  if (busy.empty()) return made;
  // Devices beyond the useful number stay idle.
  std::int64_t working = std::min(devices, min_devices(problem, module));
  while (time_on(working) > time) ++working;
  made.busy = busy[working - 1] * static_cast<double>(working) / static_cast<double>(devices);
  return made;
}

SharingAnswer solve_temporal(const plan::SharingProblem& problem) {
  check_problem(problem);
  SharingAnswer answer;
  answer.certificate = {.evaluations = std::ssize(problem.modules),
                        .limit = explain_memory(problem, true)};
  if (!answer.certificate.limit.empty()) return answer;
  for (std::size_t module = 0; module < problem.modules.size(); ++module) {
    WaveModule whole =
        on_whole_devices(problem, static_cast<std::int32_t>(module), problem.devices);
    answer.certificate.value += whole.time;
    answer.waves.push_back({whole.time, {std::move(whole)}});
  }
  answer.certificate.status = plan::Status::kOptimal;
  answer.certificate.lower_bound = answer.certificate.value;
  return hold_to_memory(problem, std::move(answer));
}

SharingAnswer solve_mosaic(const plan::SharingProblem& problem) {
  return to_answer(problem, plan::merge_stages(problem));
}

SharingAnswer solve_mosaic_unaware(const plan::SharingProblem& problem) {
  plan::SharingProblem alone = problem;
  alone.interference = {};
  plan::Staging staging = plan::merge_stages(alone);
  if (staging.certificate.status == plan::Status::kInfeasible) return to_answer(problem, staging);
  staging.certificate.value = {};
  for (plan::SharedStage& stage : staging.stages) {
    slow_together(problem, stage);
    staging.certificate.value += stage.time;
  }
  staging.certificate.status = plan::Status::kFeasible;
  return to_answer(problem, staging);
}

std::optional<Occupancy> occupancy_of(const plan::SharingProblem& problem,
                                      const SharingAnswer& answer) {
  const bool is_known = std::ranges::all_of(problem.modules, [](const plan::SharedModule& module) {
    return !module.busy.empty() && !module.whole_busy.empty();
  });
  if (!is_known || answer.waves.empty()) return std::nullopt;
  std::vector<double> busy(static_cast<std::size_t>(problem.devices));  // ns, over all units
  for (const BaselineWave& wave : answer.waves) {
    for (const WaveModule& each : wave.modules) {
      const double share = static_cast<double>(each.units) / static_cast<double>(problem.units);
      for (const std::int64_t device : each.on)
        busy[device] += share * each.busy * static_cast<double>(each.time.count);
    }
  }
  const auto step = static_cast<double>(answer.certificate.value.count);
  return Occupancy{
      .mean = std::accumulate(busy.begin(), busy.end(), 0.0) / (step * double(problem.devices)),
      .min = *std::ranges::min_element(busy) / step};
}

}  // namespace tributary::studies
