#include "simulate/step_distribution.h"

#include <algorithm>
#include <cmath>

namespace tributary::simulate {

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
          .min = steps.front(),
          .median = at(0.5),
          .percentile_95 = at(0.95),
          .max = steps.back()};
}

}  // namespace tributary::simulate
