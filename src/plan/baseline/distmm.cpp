#include <algorithm>
#include <numeric>

#include "plan/baseline/module_levels.h"
#include "plan/baseline/sharing_baselines.h"

namespace tributary::plan {
namespace {

/// Devices that each module needs to end within a time; the sum, or one more than there are.
std::int64_t devices_within(const SharingProblem& problem, std::span<const std::int32_t> modules,
                            Nanoseconds time, BaselineWave& wave) {
  std::int64_t sum = 0;
  wave.devices.clear();
  for (const std::int32_t module : modules) {
    std::int64_t devices = 1;
    while (devices <= problem.devices &&
           time_on_devices(problem, module, static_cast<double>(devices)) > time) {
      ++devices;
    }
    sum += devices;
    wave.devices.emplace_back(module, devices);
  }
  return std::min(sum, problem.devices + 1);
}

}  // namespace

BaselineWave place_side_by_side(const SharingProblem& problem,
                                std::span<const std::int32_t> modules, std::int64_t& evaluations) {
  std::vector<Nanoseconds> times;
  for (const std::int32_t module : modules) {
    for (std::int64_t devices = 1; devices <= problem.devices; ++devices) {
      times.push_back(time_on_devices(problem, module, static_cast<double>(devices)));
    }
  }
  std::sort(times.begin(), times.end());
  BaselineWave wave;
  const auto least = std::partition_point(times.begin(), times.end(), [&](Nanoseconds time) {
    ++evaluations;
    return devices_within(problem, modules, time, wave) > problem.devices;
  });
  (void)devices_within(problem, modules, *least, wave);
  wave.time = *least;
  return wave;
}

SharingAnswer solve_distmm(const SharingProblem& problem) {
  check_problem(problem);
  SharingAnswer answer;
  answer.certificate.limit = explain_memory(problem, false);
  if (!answer.certificate.limit.empty()) return answer;
  for (std::vector<std::int32_t>& level : levels_of(problem)) {
    // More modules than devices: the largest first, as many as there are devices at a time.
    std::stable_sort(level.begin(), level.end(), [&](std::int32_t a, std::int32_t b) {
      return time_on_devices(problem, a, 1) > time_on_devices(problem, b, 1);
    });
    for (std::size_t first = 0; first < level.size(); first += problem.devices) {
      const std::size_t count =
          std::min(level.size() - first, static_cast<std::size_t>(problem.devices));
      answer.waves.push_back(place_side_by_side(problem, std::span(level).subspan(first, count),
                                                answer.certificate.evaluations));
      answer.certificate.value += answer.waves.back().time;
    }
  }
  // With a module for each device at most, every level is at its optimum.
  answer.certificate.status = Status::kOptimal;
  answer.certificate.lower_bound = answer.certificate.value;
  for (const std::vector<std::int32_t>& level : levels_of(problem)) {
    if (std::ssize(level) <= problem.devices) continue;
    answer.certificate.status = Status::kFeasible;
    answer.certificate.lower_bound = {0};
  }
  if (answer.certificate.status == Status::kOptimal) return answer;
  for (const std::vector<std::int32_t>& level : levels_of(problem)) {
    Nanoseconds longest = {};
    for (const std::int32_t module : level) {
      longest =
          std::max(longest, time_on_devices(problem, module, static_cast<double>(problem.devices)));
    }
    answer.certificate.lower_bound += longest;
  }
  return answer;
}

}  // namespace tributary::plan
