#pragma once

#include <map>
#include <tuple>
#include <vector>

#include "plan/judge/plan_judge.h"

namespace tributary::plan {

/// Cuts the chains of choices into stages, by split_layers on mean microbatches; keeps its cuts.
class ChainCutter {
 public:
  explicit ChainCutter(const PlanningProblem& problem)
      : problem_(problem), batch_(mean_batch(problem)) {}

  /// shape: [separate encoders in order, then the backbone]
  [[nodiscard]] std::vector<ChainCut> cut(const PlanChoice& choice, PlanJudge& judge);

 private:
  using Key = std::tuple<const ChainCosts*, std::int64_t, std::int64_t, std::int64_t, std::int64_t>;
  [[nodiscard]] const ChainCut& cut_chain(const ChainCosts& costs, const ChainChoice& own,
                                          const PlanChoice& choice, bool is_backbone);

  const PlanningProblem& problem_;
  cost::MicrobatchShape batch_;
  std::map<Key, ChainCut> cuts_;
};

}  // namespace tributary::plan
