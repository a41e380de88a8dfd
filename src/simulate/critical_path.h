#pragma once

#include <vector>

#include "simulate/engine/lane_account.h"

namespace tributary::simulate {

/// One link of the chain that makes the step as long as it is.
struct PathPart {
  int action = -1;  // that runs; -1: a message travels
  int message = -1;
  int lane = 0;  // of the action, or to which the message goes
  Nanoseconds start;
  Nanoseconds end;
};

/// From the first start to the last end without a gap; of equal causes the one of the lowest
/// number.
///
/// cost: O(length of the path * messages of an action)
[[nodiscard]] std::vector<PathPart> critical_path(const StepProgram& program,
                                                  const Network& network, const StepTimes& times);

}  // namespace tributary::simulate
