#include "plan/candidates/recompute_choices.h"

#include <algorithm>

namespace tributary::plan {
namespace {

/// Whether a module keeps nothing: neither it nor any module before it trains.
bool keeps_nothing(const PlanningProblem& problem, const std::string& module) {
  return problem.is_frozen(module) &&
         std::ranges::all_of(problem.model.edges, [&](const config::ModuleEdge& edge) {
           return edge.to != module || keeps_nothing(problem, edge.from);
         });
}

}  // namespace

bool RecomputeChoice::covers(const RecomputeChoice& other, std::size_t encoders) const {
  if (backbone < other.backbone) return false;
  for (std::size_t encoder = 0; encoder < encoders; ++encoder)
    if (inside.of(encoder) < other.inside.of(encoder)) return false;
  return true;
}

std::vector<RecomputeChoice> list_recompute(const PlanningProblem& problem, std::uint64_t apart) {
  std::vector<config::RecomputePlan> levels = problem.space.recompute;
  std::ranges::sort(levels);
  std::vector<RecomputeChoice> choices;
  for (const config::RecomputePlan level : levels) choices.push_back({.backbone = level});
  const std::vector<const config::ModuleNode*> encoders = encoders_of(problem);
  for (std::size_t encoder = 0; encoder < encoders.size(); ++encoder) {
    if ((apart >> encoder & 1) != 0) continue;
    const bool has_one = keeps_nothing(problem, encoders[encoder]->name);
    std::vector<RecomputeChoice> longer;
    for (const RecomputeChoice& choice : choices) {
      for (const config::RecomputePlan level : levels) {
        longer.push_back(choice);
        longer.back().inside.set(encoder, level);
        if (has_one) break;
      }
    }
    choices = std::move(longer);
  }
  return choices;
}

}  // namespace tributary::plan
