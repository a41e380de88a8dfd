#pragma once

#include "schedule/pipeline/check_schedule.h"

namespace tributary::schedule {

/// Holds the list of one lane against the rules that need no other lane.
///
/// units: `lowered` says whether transfers, reductions and the step must be there
void check_lane(const PipelineMap& map, int lane, const ActionList& list, bool lowered,
                std::vector<Violation>& violations);

}  // namespace tributary::schedule
