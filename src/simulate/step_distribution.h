#pragma once

#include <vector>

#include "core/units.h"

namespace tributary::simulate {

struct StepDistribution {
  Nanoseconds mean;
  Nanoseconds deviation;
  Nanoseconds least;
  Nanoseconds median;
  Nanoseconds percentile_95;
  Nanoseconds largest;
};

/// shape: at least one step
[[nodiscard]] StepDistribution distribution_of(std::vector<Nanoseconds> steps);

}  // namespace tributary::simulate
