#pragma once

#include <span>
#include <string>
#include <vector>

#include "studies/methods/all_methods.h"
#include "studies/methods/problem_of_model.h"

namespace tributary::studies {

/// Tables of a model with a level of recompute.
struct RecomputedTables {
  std::string name = {};  // as in plans; empty: the only level
  config::RecomputePlan recompute = config::RecomputePlan::kNone;
  TrainingProblem problem;
};

/// The tables of a given level; otherwise those without recompute and with full recompute.
///
/// errors: Fault::kInput as problem_of_model
[[nodiscard]] std::vector<RecomputedTables> recompute_levels(
    const config::ModuleGraph& model, const config::Cluster& cluster, ModelSetting setting,
    std::optional<config::RecomputePlan> given = {});

/// A method's answer, and its level of recompute.
struct RecomputedAnswer {
  PipelineAnswer answer;
  const RecomputedTables* tables = nullptr;
};

/// The level whose best plan is the fastest, the first of equals; where no level has a plan, the
/// last. The certificate covers all levels.
[[nodiscard]] RecomputedAnswer solve_levels(const PipelineBaseline& baseline,
                                            std::span<const RecomputedTables> levels);

}  // namespace tributary::studies
