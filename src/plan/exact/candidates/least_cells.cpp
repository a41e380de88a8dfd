#include "plan/exact/candidates/least_cells.h"

#include <algorithm>
#include <limits>

#include "plan/cost/layer_cost.h"

namespace tributary::plan {
namespace {

/// Gives causal windows the pairs of a token of the shortest sample: longer ones have more, in a
/// curve that is not convex. Whether there are any.
bool narrow_windows(PlanningProblem& problem) {
  double shortest = std::numeric_limits<double>::infinity();
  for (const std::vector<SampleSize>& batch : problem.batches)
    for (const SampleSize& sample : batch)
      shortest = std::min(shortest, static_cast<double>(sample.tokens));
  bool has_windows = false;
  for (config::ModuleNode& module : problem.model.modules) {
    for (config::LayerRun& run : module.layers) {
      if (run.shape.window == 0 || !run.shape.causal) continue;
      const double pairs =
          attended_pairs(run.shape, {.tokens = shortest, .squared_tokens = shortest * shortest});
      // Counted as a full square, of which a causal block has half.
      run.shape.window = std::max<std::int64_t>(1, std::int64_t(pairs / shortest / 2));
      run.shape.causal = false;
      has_windows = true;
    }
  }
  return has_windows;
}

}  // namespace

CellList list_least_cells(const PlanningProblem& problem, ChainTables& tables) {
  const std::shared_ptr<const CostSource> convex = problem.costs()->convex();
  PlanningProblem least = problem;
  if (!narrow_windows(least) && !convex) return list_cells(problem, tables);
  if (convex) least.measured = convex;
  ChainTables least_tables(least);
  return list_cells(least, least_tables);
}

}  // namespace tributary::plan
