#pragma once

#include "config/artifact/cluster.h"
#include "config/artifact/module_graph.h"
#include "cost/layer_cost.h"
#include "cost/layer_passes.h"

namespace tributary::cost {

/// Adds the adapters beside a layer's maps, each as large as the mean one. They train in place of
/// the layer's own weights, whose gradients the passes lose.
void add_adapters(LayerPasses& passes, const config::DeviceModel& device,
                  const config::LayerShape& layer, const PassShape& pass,
                  const LayerPlacement& placement);

/// Bytes that adapters keep beside their layer: their inner rows, and of DoRA the outputs before
/// the factor.
[[nodiscard]] double kept_by_adapters(const config::LayerShape& layer, const PassShape& pass,
                                      const LayerPlacement& placement);

/// FLOPs of the adapters of a layer in one forward, over all its ranks.
[[nodiscard]] double count_adapter_flops(const config::LayerShape& layer, const PassShape& pass);

/// Their weights by the matrices that optimizers treat apart. They lie beside linear maps, and are
/// none themselves.
[[nodiscard]] MatrixWeights count_adapter_matrices(const config::AdapterShape& adapter);

/// Values of the adapters of a layer on one rank.
[[nodiscard]] double adapters_of_rank(const config::AdapterShape& adapter, std::int64_t tp);

}  // namespace tributary::cost
