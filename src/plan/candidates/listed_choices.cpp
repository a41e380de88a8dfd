#include "plan/candidates/listed_choices.h"

#include <algorithm>

namespace tributary::plan {
namespace {

using config::PipelineOrder;

bool allows(const PlanSpace& space, config::Placement placement) {
  return std::find(space.placements.begin(), space.placements.end(), placement) !=
         space.placements.end();
}

/// Whether the encoders of `apart` (bit i: encoder i) can have meshes of their own while the others
/// stay in the backbone's first stage: an encoder in that stage must not feed any of them.
bool is_in_front(const PlanningProblem& problem, std::uint64_t apart) {
  const std::vector<const config::ModuleNode*> encoders = encoders_of(problem);
  const auto has_mesh = [&](const std::string& module) {
    for (std::size_t i = 0; i < encoders.size(); ++i)
      if (encoders[i]->name == module) return (apart >> i & 1) != 0;
    return false;
  };
  const std::vector<config::ModuleEdge>& edges = problem.model.edges;
  return std::none_of(edges.begin(), edges.end(), [&](const config::ModuleEdge& edge) {
    return has_mesh(edge.to) && !has_mesh(edge.from);
  });
}

/// A colocated module must feed exactly one other: it hands its features over once.
bool feeds_one(const PlanningProblem& problem, const config::ModuleNode& encoder) {
  const std::vector<config::ModuleEdge>& edges = problem.model.edges;
  return std::count_if(edges.begin(), edges.end(), [&](const config::ModuleEdge& edge) {
           return edge.from == encoder.name;
         }) == 1;
}

/// Whether a module keeps nothing: neither it nor any module before it trains.
bool keeps_nothing(const PlanningProblem& problem, const std::string& module) {
  return problem.is_frozen(module) &&
         std::ranges::all_of(problem.model.edges, [&](const config::ModuleEdge& edge) {
           return edge.to != module || keeps_nothing(problem, edge.from);
         });
}

}  // namespace

std::vector<std::uint64_t> list_apart(const PlanningProblem& problem) {
  const std::uint64_t all = (std::uint64_t{1} << encoders_of(problem).size()) - 1;
  std::vector<std::uint64_t> sets;
  for (std::uint64_t apart = 0; apart <= all; ++apart) {
    if (apart != 0 && !allows(problem.space, config::Placement::kSeparate)) continue;
    if (apart != all && !allows(problem.space, config::Placement::kInline)) continue;
    if (is_in_front(problem, apart)) sets.push_back(apart);
  }
  return sets;
}

std::vector<int> list_colocated(const PlanningProblem& problem) {
  const PlanSpace& space = problem.space;
  std::vector<int> encoders;
  const int count = static_cast<int>(encoders_of(problem).size());
  if (!allows(space, config::Placement::kColocated)) return encoders;
  if (count > 1 && !allows(space, config::Placement::kInline)) return encoders;
  for (int encoder = 0; encoder < count; ++encoder) {
    const config::ModuleNode& node = *encoders_of(problem)[encoder];
    if (is_in_front(problem, std::uint64_t{1} << encoder) && feeds_one(problem, node) &&
        std::any_of(space.schedules.begin(), space.schedules.end(),
                    [&](PipelineOrder order) { return can_colocate(problem, node, order); }))
      encoders.push_back(encoder);
  }
  return encoders;
}

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
