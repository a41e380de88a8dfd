#include "plan/sharing/share_options.h"

#include <algorithm>
#include <bit>
#include <limits>

namespace tributary::plan {

ShareOptions::ShareOptions(const SharingProblem& problem)
    : modules_(problem.modules.size()),
      widths_(static_cast<std::size_t>(problem.widths())),
      room_(static_cast<int>(problem.devices * problem.units)) {
  for (const SharedModule& module : problem.modules) {
    std::int64_t min = std::numeric_limits<std::int64_t>::max();
    std::int64_t work = min;
    for (std::size_t place = 0; place < module.times.size(); ++place) {
      const std::int64_t time = module.times[place].count;
      const auto width = static_cast<std::int64_t>(place) / problem.units;
      const std::int64_t share = static_cast<std::int64_t>(place) % problem.units + 1;
      limits_.push_back(time);
      min = std::min(min, time);
      work = std::min(work, (share << width) * time);
    }
    min_time_.push_back(min);
    work_.push_back(work);
  }
  std::sort(limits_.begin(), limits_.end());
  limits_.erase(std::unique(limits_.begin(), limits_.end()), limits_.end());

  units_.resize(limits_.size() * modules_ * widths_);
  area_.resize(units_.size());
  std::size_t at = 0;
  for (const std::int64_t limit : limits_) {
    for (std::size_t module = 0; module < modules_; ++module) {
      int fewest = static_cast<int>(problem.units) + 1;
      int area = kNoArea;
      for (std::size_t width = 0; width < widths_; ++width, ++at) {
        const Nanoseconds* times = &problem.modules[module].times[width * problem.units];
        int share = 1;
        while (share < fewest && times[share - 1].count > limit) ++share;
        if (share < fewest) {
          units_[at] = fewest = share;
          area = std::min(area, share << width);
        }
        area_[at] = area;
      }
    }
  }
}

int ShareOptions::last_within(std::int64_t time) const {
  return static_cast<int>(std::upper_bound(limits_.begin(), limits_.end(), time) -
                          limits_.begin()) -
         1;
}

int ShareOptions::min_limit(ModuleSet modules) const {
  const auto fits = [&](int limit) {
    int sum = 0;
    for (ModuleSet rest = modules; rest != 0 && sum <= room_; rest &= rest - 1) {
      sum += area(std::countr_zero(rest), static_cast<int>(widths_) - 1, limit);
    }
    return sum <= room_;
  };
  int low = 0;
  auto high = static_cast<int>(limits_.size());
  while (low < high) {
    const int middle = low + (high - low) / 2;
    if (fits(middle)) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;  // one past the last when they never fit
}

}  // namespace tributary::plan
