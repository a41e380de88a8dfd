#pragma once

#include <vector>

#include "simulate/program/step_program.h"

namespace tributary::plan {

/// All actions of a program, each after those that it waits for: whatever they take, they can be
/// timed in this order. Lanes are followed as far as they come, the lowest first.
///
/// errors: Fault::kBug when the step never ends
/// cost:   O(actions + messages), and for a batch that a pass waits for whole its messages squared
[[nodiscard]] std::vector<int> order_actions(const simulate::StepProgram& program);

}  // namespace tributary::plan
