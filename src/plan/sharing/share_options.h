#pragma once

#include <vector>

#include "plan/sharing/sharing_problem.h"

namespace tributary::plan {

/// For every time that a module can take, the min share units on each width: all questions of the
/// form "within this time" become look-ups. Times are indices into limits().
class ShareOptions {
 public:
  explicit ShareOptions(const SharingProblem& problem);

  /// All times of all modules, ascending.
  [[nodiscard]] const std::vector<std::int64_t>& limits() const { return limits_; }
  /// Index of the last limit up to a time; -1 below all of them.
  [[nodiscard]] int last_within(std::int64_t time) const;

  /// Units on each of 2^width devices; 0 if it does not fit, or fewer devices need no more units.
  [[nodiscard]] int units(int module, int width, int limit) const {
    return units_[(static_cast<std::size_t>(limit) * modules_ + module) * widths_ + width];
  }
  /// Min units times devices over widths up to this one; kNoArea when it cannot run.
  [[nodiscard]] int area(int module, int width, int limit) const {
    return area_[(static_cast<std::size_t>(limit) * modules_ + module) * widths_ + width];
  }
  /// The first limit at which the modules' areas add up to no more than the devices have.
  [[nodiscard]] int min_limit(ModuleSet modules) const;
  /// Min units times devices times time of a module, over all ways to run it.
  [[nodiscard]] std::int64_t work(int module) const { return work_[module]; }
  /// The min time of a module, alone on all devices.
  [[nodiscard]] std::int64_t min_time(int module) const { return min_time_[module]; }

  static constexpr int kNoArea = 1 << 20;

 private:
  std::size_t modules_;
  std::size_t widths_;
  int room_;  // units of all devices
  std::vector<std::int64_t> limits_;
  std::vector<int> units_;  // [limits, modules, widths]
  std::vector<int> area_;   // [limits, modules, widths]
  std::vector<std::int64_t> work_;
  std::vector<std::int64_t> min_time_;
};

}  // namespace tributary::plan
