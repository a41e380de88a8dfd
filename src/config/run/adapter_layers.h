#pragma once

#include <span>

#include "config/artifact/module_graph.h"
#include "config/run/adapter.h"

namespace tributary::config {

/// Says of each layer of a model which adapters a run trains beside its linear maps.
///
/// shape: maps of the whole model, along the way of the features, as the trainer lists them
[[nodiscard]] ModuleGraph add_adapters(ModuleGraph graph, const ModelSection& model,
                                       std::span<const LinearMap> maps);

}  // namespace tributary::config
