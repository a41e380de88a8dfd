#pragma once

#include <vector>

#include "simulate/engine/step_times.h"

namespace tributary::simulate {

/// The groups of lanes in which messages in flight together want more than a link has; within a
/// billionth of the limit counts as more. Channels and links connect lanes to groups.
///
/// shape: lanes of each group, ascending
/// cost:  O(messages * log(messages of a link))
[[nodiscard]] std::vector<std::vector<int>> find_contention(const StepProgram& program,
                                                            const Network& network,
                                                            const StepTimes& times);

/// Whether a pass runs at the same time as a reduction of its lane that slows it down.
[[nodiscard]] bool slows_a_pass(const StepProgram& program, const Network& network,
                                const StepTimes& times);

/// Whether the lanes of a machine could ask for more cores than it has.
[[nodiscard]] bool lacks_cores(const StepProgram& program, const Network& network);

}  // namespace tributary::simulate
