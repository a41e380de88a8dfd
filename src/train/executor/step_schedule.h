#pragma once

#include <cstdint>
#include <vector>

#include "model/model.h"
#include "schedule/pipeline/pipeline.h"

namespace tributary::train {

/// How many messages of a link between two stages may be sent and not yet used, as schedules plan
/// it. Through memory that ranks share a send is done at once and waits for nothing.
inline constexpr int kBuffersOfALink = 2;

/// Which virtual stages have something to train.
[[nodiscard]] std::vector<bool> trained_stages(const model::Model& model);

/// What this rank does in a step, in its order.
struct StepSchedule {
  schedule::ActionList actions;
  int in_flight = 0;  // max chunk activations that this rank will keep
};

/// Lists the actions of this rank for a step of `microbatches`, from the order and the stages of
/// the model's layout and from which of its stages train.
///
/// cost: one pass over the actions of all stages of a replica
[[nodiscard]] StepSchedule schedule_step(const model::Model& model, std::int64_t microbatches);

}  // namespace tributary::train
