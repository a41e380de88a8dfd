#pragma once

#include "schedule/pipeline/check_schedule.h"

namespace tributary::schedule {

/// Checks the list of one lane against the rules that need no other lane.
///
/// units: lowered: whether transfers, reductions and the step must be in the list
void check_lane(const PipelineMap& map, int lane, const ActionList& list, bool lowered,
                std::vector<Violation>& violations);

}  // namespace tributary::schedule
