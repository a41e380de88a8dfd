#pragma once

#include <algorithm>
#include <vector>

#include "simulate/program/step_load.h"

namespace tributary::simulate {

/// Lanes that get no gradients back, and may do their part of a step before it begins.
struct LanesAhead {
  std::vector<bool> lanes = {};  // empty: none
  bool in_pace = false;          // all steps are equal and keep the state as it was: these lanes
                                 // do the work of one step in each. Otherwise they do not count
};

/// Lower bounds on a step, for any order of the passes on each lane.
struct StepBound {
  Nanoseconds work;    // of the worst lane: the min time before its first pass, all its
                       // passes, and the min after its last one
  Nanoseconds path;    // the longest chain of passes, messages, a reduction and the step
  Nanoseconds link;    // all bytes of the busiest link one after the other, between
                       // the min time before the first and after the last
  Nanoseconds stream;  // the reductions of the worst stream, each not before its
                       // gradients can exist, and the step

  [[nodiscard]] Nanoseconds value() const { return std::max({work, path, link, stream}); }
};

/// After a pass comes the reduction of its gradients, unless later passes hide it, and after all
/// passes the optimizer step. Lanes ahead hold back no other lane.
///
/// cost:   O(actions + messages), and O(log(chunks)) for each reduction
/// source: docs/theory/planning.md, "Bounds of a step"
[[nodiscard]] StepBound bound_step(const StepProgram& program, const StepLoad& load,
                                   const Network& network, const LanesAhead& ahead = {});

}  // namespace tributary::simulate
