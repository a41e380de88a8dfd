#pragma once

#include <algorithm>
#include <vector>

#include "simulate/program/step_load.h"

namespace tributary::simulate {

/// Lanes that nothing comes back to, and that may do their part of a step before it begins.
struct LanesAhead {
  std::vector<bool> lanes = {};  // empty: none
  bool in_pace = false;          // all steps are equal and leave things as they found them, so that
                                 // the lanes do the work of one in each; else they are not counted
};

/// Least time that a step can take in any order of the passes on each lane.
struct StepBound {
  Nanoseconds work;    // of the worst lane: what must come before its first pass, all its passes,
                       // what must come after its last one
  Nanoseconds path;    // the longest chain of passes, messages, a reduction and the step
  Nanoseconds link;    // all bytes of the busiest link, one after the other, between what must come
                       // before the first and after the last
  Nanoseconds stream;  // the reductions of the worst stream, none before its gradients can be
                       // there, and the step

  [[nodiscard]] Nanoseconds value() const { return std::max({work, path, link, stream}); }
};

/// After a pass comes the reduction of the gradients that it gives, unless later passes hide it,
/// and after all of them the step. Lanes ahead hold no other lane back.
///
/// cost:   O(actions + messages), and O(log(chunks)) for each reduction
/// source: docs/theory/planning.md, "Bounds of a step"
[[nodiscard]] StepBound bound_step(const StepProgram& program, const StepLoad& load,
                                   const Network& network, const LanesAhead& ahead = {});

}  // namespace tributary::simulate
