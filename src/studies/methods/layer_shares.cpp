#include "studies/methods/layer_shares.h"

#include <algorithm>

#include "studies/methods/batch_runner.h"

namespace tributary::studies {

std::vector<StageShare> cut_uniformly(const Problem3d& costs, std::int64_t stages) {
  const std::int64_t all = costs.encoder.layers + costs.backbone.layers;
  std::vector<StageShare> shares;
  std::int64_t first = 0;
  for (std::int64_t stage = 0; stage < stages; ++stage) {
    const std::int64_t end = first + layers_of_stage(all, stages, stage);
    const std::int64_t encoder =
        std::min(end, costs.encoder.layers) - std::min(first, costs.encoder.layers);
    shares.push_back({double(encoder) / double(costs.encoder.layers),
                      double(end - first - encoder) / double(costs.backbone.layers)});
    first = end;
  }
  return shares;
}

std::vector<StageShare> cut_by_module(const Problem3d& costs, std::int64_t encoder_stages,
                                      std::int64_t backbone_stages) {
  std::vector<StageShare> shares;
  const auto share = [](const ModuleCosts& module, std::int64_t stages, std::int64_t stage) {
    return double(layers_of_stage(module.layers, stages, stage)) / double(module.layers);
  };
  for (std::int64_t stage = 0; stage < encoder_stages; ++stage)
    shares.push_back({share(costs.encoder, encoder_stages, stage), 0});
  for (std::int64_t stage = 0; stage < backbone_stages; ++stage)
    shares.push_back({0, share(costs.backbone, backbone_stages, stage)});
  return shares;
}

std::vector<StageShare> cut_behind_encoder(const Problem3d& costs, std::int64_t beside,
                                           std::int64_t stages) {
  const auto layers = static_cast<double>(costs.backbone.layers);
  std::vector<StageShare> shares = {{1, double(beside) / layers}};
  for (std::int64_t stage = 0; stage + 1 < stages; ++stage) {
    const std::int64_t mine = layers_of_stage(costs.backbone.layers - beside, stages - 1, stage);
    shares.push_back({0, double(mine) / layers});
  }
  return shares;
}

}  // namespace tributary::studies
