#pragma once

#include "config/plan/plan.h"
#include "core/json.h"

namespace tributary::app {

/// The lowered action lists of a plan, lane by lane: {name, module, replica, stage, ranks,
/// in_flight, actions: [{op, chunk, microbatch, peer}]}. `peer` is the lane at the other end of a
/// send or receive, or the edge that features cross; other actions have none.
///
/// errors: Fault::kInput when the plan has a feature that action lists do not cover
[[nodiscard]] Json answer_action_lists(const config::Plan& plan);

}  // namespace tributary::app
