#pragma once

#include <cstdint>
#include <string>

#include "app/answer/plan_answer.h"

namespace tributary::app {

/// `512 samples a step (1.19 M tokens, mean of 8 batches) on 64 devices (nodes of 8 H100 SXM)`
[[nodiscard]] std::string describe_work(const plan::PlanningProblem& problem);

/// Names the columns of print_row.
void print_heading();

/// Prints a row of columns (place, step, gap, tokens/s, MFU, memory), and below it the plan as
/// told, with the number of batches that were simulated where it is not all.
///
/// place: from 1; 0: a plan that stands alone
void print_row(const plan::PlanningProblem& problem, const ListedPlan& listed,
               const std::string& told, std::int64_t place, bool has_gap = true);

/// Says what was written to `output`, and what can be typed next; nothing without an output.
///
/// config: as the user gave it: a run configuration, or a model
void print_written(const ListedPlan& listed, const std::string& output, const std::string& config,
                   const std::string& cluster);

void print_explanation(const plan::PlanExplanation& explanation, std::int64_t batches);

}  // namespace tributary::app
