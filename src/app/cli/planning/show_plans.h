#pragma once

#include <cstdint>
#include <string>

#include "plan/exact/explain_plan.h"

namespace tributary::app {

/// `812.300 ms +- 10.200 ms, 8 devices, 41.20 GiB (backbone): ` and the plan as told, with the
/// number of batches that were simulated where it is not all; `gap` stands behind the step.
[[nodiscard]] std::string in_a_line(const plan::PlanningProblem& problem,
                                    const plan::FoundPlan& found, const std::string& told,
                                    const std::string& gap = {});

void print_explanation(const plan::PlanExplanation& explanation, std::int64_t batches);

}  // namespace tributary::app
