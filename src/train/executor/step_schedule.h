#pragma once

#include <cstdint>
#include <vector>

#include "schedule/pipeline/pipeline.h"
#include "train/placement/run_lanes.h"

namespace tributary::train {

/// How many messages of a link between two stages may be sent and not yet used, as schedules plan
/// it. Through memory that ranks share a send is done at once and waits for nothing.
inline constexpr int kBuffersOfALink = 2;

/// An action of one of the lanes that a rank runs.
struct LaneAction {
  int lane = 0;  // of the pipeline
  schedule::Action action;
};

/// What this rank does in a step, in its order.
struct StepSchedule {
  std::vector<LaneAction> actions;
  int microbatches = 1;       // of each replica
  int next_microbatches = 0;  // likewise, of the step after
  int in_flight = 0;          // max chunk activations that this rank will keep
};

/// Lists the actions of this rank for a step of `microbatches`. A colocated encoder takes turns
/// with the backbone as their lists say, or runs its forwards before the backbone's list and its
/// backwards after it, one encoder after the other. One that is ahead encodes for the step after,
/// of `next_microbatches`; 0: for none.
///
/// cost: one pass over the actions of all lanes
[[nodiscard]] StepSchedule schedule_step(const RunLanes& run, std::int64_t microbatches,
                                         std::int64_t next_microbatches = 0);

/// Of a rank's actions those for the step after.
[[nodiscard]] std::vector<LaneAction> actions_ahead(const RunLanes& run,
                                                    const std::vector<LaneAction>& actions);

}  // namespace tributary::train
