#pragma once

#include <cstdint>
#include <string>

#include "app/answers/plan_answer.h"

namespace tributary::app {

/// `512 samples a step (1.19 M tokens, mean of 8 batches) on 64 devices (nodes of 8 H100 SXM)`
[[nodiscard]] std::string describe_work(const plan::PlanningProblem& problem);

/// Prints the names of the columns of print_row.
void print_heading();

/// Prints a row of columns (place, step, gap, tokens/s, MFU, memory), and below it the plan as
/// `told`, with the number of simulated batches where it is not all of them.
///
/// place: from 1; 0: the only plan, which gets no number
void print_row(const plan::PlanningProblem& problem, const ListedPlan& listed,
               const std::string& told, std::int64_t place, bool has_gap = true);

/// Refuses an output that cannot be written, or that is one of the inputs.
void check_plan_output(const PlanOptions& options);

/// Writes the plan to the output, where the user gave one. The file names the model relative to its
/// own folder.
void write_plan_of(const PlanRequest& request, config::Plan plan);

/// Prints which file was written and what to type next; nothing without an output.
///
/// options: as the user gave them, where `model` may be a run configuration
void print_written(const ListedPlan& listed, const PlanOptions& options);

void print_explanation(const plan::PlanExplanation& explanation, std::int64_t batches);

}  // namespace tributary::app
