#pragma once

#include <span>
#include <string>
#include <vector>

#include "studies/methods/pipeline_baselines.h"
#include "studies/methods/problem_of_model.h"

namespace tributary::studies {

/// Tables of a model with a level of recompute.
struct RecomputedTables {
  std::string name = {};  // as plans say it; empty: the only level
  config::RecomputePlan recompute = config::RecomputePlan::kNone;
  TrainingProblem problem;
};

/// The tables of the level given, else without recompute and with all layers recomputed.
///
/// errors: Fault::kInput as problem_of_model
[[nodiscard]] std::vector<RecomputedTables> recompute_levels(
    const config::ModuleGraph& model, const config::Cluster& cluster, ModelSetting setting,
    std::optional<config::RecomputePlan> given = {});

/// A method's answer, and the level that it is of.
struct RecomputedAnswer {
  PipelineAnswer answer;
  const RecomputedTables* tables = nullptr;
};

/// The level under which the method's best plan is the fastest, the first of equals; where none has
/// a plan the last. The certificate is that of all levels.
[[nodiscard]] RecomputedAnswer solve_levels(const PipelineBaseline& baseline,
                                            std::span<const RecomputedTables> levels);

}  // namespace tributary::studies
