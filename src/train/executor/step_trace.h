#pragma once

#include <optional>
#include <vector>

#include "config/trace/trace.h"
#include "mesh/mesh.h"
#include "train/executor/executor.h"
#include "train/placement/run_lanes.h"

namespace tributary::train {

/// When one rank did what in a step, in seconds of its own now_seconds().
struct RankTimes {
  double began = 0;     // all ranks knew the step
  double reduced = 0;   // its gradients were complete
  double prepared = 0;  // all knew the loss
  double updated = 0;
  double seconds = 0;  // of the whole step
  double mfu = 0;
  std::int64_t peak_bytes = 0;
  std::vector<PassTimes> passes;
};

/// The step of all ranks as a trace, for `tributary report` to draw over a prediction: a lane for
/// each stage and replica, as its first rank saw it, named as in a simulation of the plan. The
/// clocks of ranks are set to the moment at which all knew the step.
///
/// collective: over all ranks; the first gets the trace, the others nothing
[[nodiscard]] std::optional<config::Trace> gather_trace(const RankTimes& own, const RunLanes& run,
                                                        const model::Model& model);

}  // namespace tributary::train
