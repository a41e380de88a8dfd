#include "app/engine/estimate_activations.h"

#include <algorithm>

#include "config/artifact/module_graph.h"
#include "cost/layer_cost.h"
#include "model/model.h"

namespace tributary::app {
namespace {

bool lists(const std::vector<std::string>& modules, const std::string& name) {
  return std::ranges::find(modules, name) != modules.end();
}

/// How many patches of a picture become one token of the backbone.
std::int64_t patches_of_token(const config::ModuleGraph& graph) {
  std::int64_t merge = 1;
  for (const config::ModuleNode& node : graph.modules)
    for (const config::LayerRun& run : node.layers) merge = std::max(merge, run.shape.merge);
  return merge;
}

/// Bytes of logits, exponentials and gradients, which are computed in chunks of rows.
Bytes logits_of(const config::LayerShape& head, double tokens, std::int64_t tp) {
  const double all = tokens * static_cast<double>(cost::vocab_of_rank(head.vocab, tp));
  const double most = std::min(all, static_cast<double>(model::kMostLogits));
  return {static_cast<std::int64_t>(3 * sizeof(float) * most)};
}

Bytes kept_of(const cost::LayerCost& cost, const config::ModelSection& section,
              const std::string& module) {
  if (lists(section.offload, module)) return {};
  switch (config::level_of(section.recompute, module)) {
    case config::RecomputePlan::kNone:
      return cost.activation;
    case config::RecomputePlan::kSelective:
      return cost.activation_selective;
    case config::RecomputePlan::kFull:
      break;
  }
  return cost.activation_recomputed;
}

}  // namespace

Bytes estimate_activations(const config::RunConfig& config, const config::MeshShape& mesh) {
  // Only bytes are needed here, so the rates of the device do not matter.
  const config::DeviceModel device{.matrix_flops_per_s = 1e12, .memory_bytes_per_s = 1e11};
  const config::ModuleGraph graph = config::read_graph_of_model(config.model.path);
  const cost::LayerPlacement placement{
      .tp = mesh.tp, .sequence_parallel = mesh.tp > 1, .dtype = config.model.dtype};
  const double tokens = static_cast<double>(config.batch.capacity_tokens.count) /
                        static_cast<double>(mesh.cp * mesh.ulysses);
  const double patches = tokens * static_cast<double>(patches_of_token(graph));
  const auto trains = [&](const std::string& name) { return !lists(config.model.freeze, name); };
  const bool encoder_trains = std::ranges::any_of(
      graph.modules,
      [&](const config::ModuleNode& node) { return node.name != "backbone" && trains(node.name); });
  Bytes kept;
  for (const config::ModuleNode& node : graph.modules) {
    const bool is_backbone = node.name == "backbone";
    const bool goes_back = trains(node.name) || (is_backbone && encoder_trains) ||
                           (node.name == "projector" && trains("vision"));
    if (!goes_back) continue;
    for (const config::LayerRun& run : node.layers) {
      if (run.shape.kind == config::LayerKind::kHead) {
        kept += logits_of(run.shape, tokens, mesh.tp);
        continue;
      }
      const cost::LayerCost cost =
          cost::layer_cost(device, run.shape, {.tokens = is_backbone ? tokens : patches}, placement,
                           {.trains = trains(node.name), .needs_input_grad = true});
      kept += kept_of(cost, config.model, node.name) * run.layers;
    }
  }
  return kept;
}

}  // namespace tributary::app
