#pragma once

#include <vector>

#include "core/units.h"

namespace tributary::simulate {

struct StepDistribution {
  Nanoseconds mean;
  Nanoseconds deviation;
  Nanoseconds min;
  Nanoseconds median;
  Nanoseconds percentile_95;
  Nanoseconds max;
};

/// shape: at least one step
[[nodiscard]] StepDistribution distribution_of(std::vector<Nanoseconds> steps);

}  // namespace tributary::simulate
