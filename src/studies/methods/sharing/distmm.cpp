#include <algorithm>
#include <numeric>

#include "studies/methods/sharing/sharing_baselines.h"
#include "studies/methods/sharing/sharing_memory.h"

namespace tributary::studies {
namespace {

/// Devices that each module needs to end within a time; more than exist where none are enough.
std::vector<std::int64_t> devices_within(const plan::SharingProblem& problem,
                                         std::span<const std::int32_t> modules, Nanoseconds time) {
  std::vector<std::int64_t> found;
  for (const std::int32_t module : modules) {
    std::int64_t devices = min_devices(problem, module);
    while (devices <= problem.devices &&
           time_on_devices(problem, module, static_cast<double>(devices)) > time) {
      ++devices;
    }
    found.push_back(devices);
  }
  return found;
}

}  // namespace

BaselineWave place_side_by_side(const plan::SharingProblem& problem,
                                std::span<const std::int32_t> modules, std::int64_t& evaluations) {
  std::vector<Nanoseconds> times;
  for (const std::int32_t module : modules) {
    for (std::int64_t devices = min_devices(problem, module); devices <= problem.devices;
         ++devices) {
      times.push_back(time_on_devices(problem, module, static_cast<double>(devices)));
    }
  }
  std::sort(times.begin(), times.end());
  const auto min = std::partition_point(times.begin(), times.end(), [&](Nanoseconds time) {
    ++evaluations;
    const std::vector<std::int64_t> devices = devices_within(problem, modules, time);
    return std::accumulate(devices.begin(), devices.end(), std::int64_t{0}) > problem.devices;
  });
  BaselineWave wave = {.time = *min};
  const std::vector<std::int64_t> devices = devices_within(problem, modules, *min);
  for (std::size_t at = 0; at < modules.size(); ++at)
    wave.modules.push_back(on_whole_devices(problem, modules[at], devices[at]));
  return wave;
}

std::vector<BaselineWave> place_level(const plan::SharingProblem& problem,
                                      std::vector<std::int32_t> level, std::int64_t& evaluations) {
  // More modules than devices: the largest go first, as many at a time as fit the devices.
  std::stable_sort(level.begin(), level.end(), [&](std::int32_t a, std::int32_t b) {
    return time_on_devices(problem, a, 1) > time_on_devices(problem, b, 1);
  });
  std::vector<BaselineWave> waves;
  for (std::span<const std::int32_t> rest = level; !rest.empty();) {
    const std::size_t count = count_side_by_side(problem, rest);
    waves.push_back(place_side_by_side(problem, rest.first(count), evaluations));
    rest = rest.subspan(count);
  }
  return waves;
}

SharingAnswer solve_distmm(const plan::SharingProblem& problem) {
  check_problem(problem);
  SharingAnswer answer;
  answer.certificate.limit = explain_memory(problem, false);
  if (!answer.certificate.limit.empty()) return answer;
  for (const std::vector<std::int32_t>& level : levels_of(problem)) {
    for (BaselineWave& wave : place_level(problem, level, answer.certificate.evaluations)) {
      answer.certificate.value += wave.time;
      answer.waves.push_back(std::move(wave));
    }
  }
  // When all modules of a level run side by side, the division is optimal.
  answer.certificate.status = plan::Status::kOptimal;
  answer.certificate.lower_bound = answer.certificate.value;
  for (const std::vector<std::int32_t>& level : levels_of(problem)) {
    if (count_side_by_side(problem, level) == level.size()) continue;
    answer.certificate.status = plan::Status::kFeasible;
    answer.certificate.lower_bound = {0};
  }
  if (answer.certificate.status == plan::Status::kOptimal)
    return hold_to_memory(problem, std::move(answer));
  for (const std::vector<std::int32_t>& level : levels_of(problem)) {
    Nanoseconds longest = {};
    for (const std::int32_t module : level) {
      longest =
          std::max(longest, time_on_devices(problem, module, static_cast<double>(problem.devices)));
    }
    answer.certificate.lower_bound += longest;
  }
  return hold_to_memory(problem, std::move(answer));
}

}  // namespace tributary::studies
