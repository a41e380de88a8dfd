#pragma once

#include <vector>

#include "simulate/engine/lane_account.h"

namespace tributary::simulate {

/// One part of the chain that determines the length of the step.
struct PathPart {
  int action = -1;  // the action that runs; -1: a message travels
  int message = -1;
  int lane = 0;  // of the action; of a message the receiving lane
  Nanoseconds start;
  Nanoseconds end;
};

/// The parts from the first start to the last end without a gap. Among equal causes it takes the
/// one with the lowest number.
///
/// cost: O(length of the path * messages of an action)
[[nodiscard]] std::vector<PathPart> critical_path(const StepProgram& program,
                                                  const Network& network, const StepTimes& times);

}  // namespace tributary::simulate
