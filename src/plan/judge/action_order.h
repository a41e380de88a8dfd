#pragma once

#include <vector>

#include "simulate/program/step_program.h"

namespace tributary::plan {

/// All actions of a program, each after those that it waits for: they can be timed in this order,
/// however long they take. Lanes advance as far as they can, the lowest first.
///
/// errors: Fault::kBug when the step never ends
/// cost:   O(actions + messages); O(messages^2) for a batch that a pass waits for as a whole
[[nodiscard]] std::vector<int> order_actions(const simulate::StepProgram& program);

}  // namespace tributary::plan
