#pragma once

#include <algorithm>

#include "plan/simulate/step_load.h"

namespace tributary::plan {

/// Least time that a step can take in any order of the passes on each lane.
struct StepBound {
  Nanoseconds work;  // of the worst lane: what must come before its first pass, all its passes,
                     // what must come after its last one
  Nanoseconds path;  // the longest chain of passes and messages that need each other
  Nanoseconds link;  // all bytes of the busiest link, one after the other

  [[nodiscard]] Nanoseconds value() const { return std::max({work, path, link}); }
};

/// source: planning.md section 3.4, for any pipeline: reductions and the step come on top
/// cost:   O(actions + messages)
[[nodiscard]] StepBound bound_step(const StepProgram& program, const StepLoad& load,
                                   const Network& network);

}  // namespace tributary::plan
