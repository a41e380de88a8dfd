#include "studies/methods/recompute_levels.h"

#include <utility>

namespace tributary::studies {

std::vector<RecomputedTables> recompute_levels(const config::ModuleGraph& model,
                                               const config::Cluster& cluster, ModelSetting setting,
                                               std::optional<config::RecomputePlan> given) {
  std::vector<RecomputedTables> levels;
  const auto add = [&](const std::string& name, config::RecomputePlan level) {
    setting.recompute = level;
    levels.push_back({name, level, problem_of_model(model, cluster, setting)});
  };
  if (given) {
    add("", *given);
  } else {
    add(", nothing recomputed", config::RecomputePlan::kNone);
    add(", layers recomputed", config::RecomputePlan::kFull);
  }
  return levels;
}

RecomputedAnswer solve_levels(const PipelineBaseline& baseline,
                              std::span<const RecomputedTables> levels) {
  RecomputedAnswer best;
  plan::Certificate all;
  for (const RecomputedTables& tables : levels) {
    PipelineAnswer answer = baseline.solve(tables.problem);
    const bool has_plan = answer.certificate.status != plan::Status::kInfeasible;
    if (has_plan) answer.plan += tables.name;
    if (!has_plan && answer.min_bytes > 0) answer.certificate.limit += tables.name;
    const bool is_better = all.status == plan::Status::kInfeasible ||
                           (has_plan && answer.certificate.value < all.value);
    all = best.tables == nullptr ? answer.certificate : plan::join(all, answer.certificate);
    if (is_better) best = {std::move(answer), &tables};
  }
  best.answer.certificate = all;
  return best;
}

}  // namespace tributary::studies
