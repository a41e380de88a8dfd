#include "plan/candidates/least_cells.h"

#include <algorithm>

#include "config/family/known_modules.h"
#include "cost/layer_cost.h"
#include "cost/stages/place_layers.h"

namespace tributary::plan {
namespace {

/// The media that the encoders of a module read: sound where it, or its input, starts with sound.
cost::Media media_of(const config::ModuleGraph& model, const config::ModuleNode& module) {
  if (!cost::has_both_media(model)) return cost::Media::kPatches;
  if (cost::hears(module)) return cost::Media::kFrames;
  for (const config::ModuleEdge& edge : model.edges)
    if (edge.to == module.name) return media_of(model, *model.find(edge.from));
  return cost::Media::kPatches;
}

/// The sequences of one sample that a module works on.
cost::PassShape pass_of(const PlanningProblem& problem, const config::ModuleNode& module,
                        const simulate::SampleSize& sample) {
  const cost::MicrobatchShape shape = simulate::shape_of(sample);
  if (module.name == config::kBackboneModule) return shape.backbone;
  return shape.of(media_of(problem.model, module));
}

/// A window that no item's attended pairs are below, whatever the sample: it makes a lower bound on
/// pairs that is linear in the items.
std::int64_t narrowest_window(const PlanningProblem& problem, const config::ModuleNode& module,
                              const config::LayerShape& layer) {
  auto fewest = static_cast<double>(layer.window);
  for (const std::vector<simulate::SampleSize>& batch : problem.batches) {
    for (const simulate::SampleSize& sample : batch) {
      const cost::PassShape pass = pass_of(problem, module, sample);
      if (pass.tokens <= 0) continue;
      // A causal block counts pairs as a full square, of which it has half.
      const double pairs = cost::attended_pairs(layer, pass) / (layer.causal ? 2 : 1);
      fewest = std::min(fewest, pairs / pass.tokens);
    }
  }
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(fewest));
}

/// Replaces windowed attention by the linear bound; returns whether there was any. Pairs in a
/// window are concave in the length: short and long samples have fewer than those of the mean
/// length.
bool narrow_windows(PlanningProblem& problem) {
  bool has_windows = false;
  for (config::ModuleNode& module : problem.model.modules) {
    for (config::LayerRun& run : module.layers) {
      if (run.shape.window == 0) continue;
      run.shape.window = narrowest_window(problem, module, run.shape);
      run.shape.causal = false;
      has_windows = true;
    }
  }
  return has_windows;
}

}  // namespace

CellList list_least_cells(const PlanningProblem& problem, ChainTables& tables) {
  const std::shared_ptr<const cost::CostSource> convex = problem.costs()->convex();
  PlanningProblem min = problem;
  if (!narrow_windows(min) && !convex) return list_cells(problem, tables);
  if (convex) min.measured = convex;
  ChainTables min_tables(min);
  return list_cells(min, min_tables);
}

}  // namespace tributary::plan
