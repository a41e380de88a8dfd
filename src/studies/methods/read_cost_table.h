#pragma once

#include <string>
#include <string_view>

#include "studies/methods/training_problem.h"

namespace tributary::studies {

inline constexpr std::string_view kCostTableFormat = "tributary.cost_table/1";

/// Reads a cost table: docs/formats/cost_table.md. Without batches none are set; with them the mean
/// shapes are those of the batches.
///
/// errors: Fault::kInput that lists everything wrong by file and key path, unknown keys with the
///         nearest known one
[[nodiscard]] TrainingProblem parse_cost_table(std::string_view text, const std::string& where);
[[nodiscard]] TrainingProblem read_cost_table(const std::string& path);

}  // namespace tributary::studies
