#pragma once

#include <cstddef>
#include <vector>

#include "config/pipeline_order.h"
#include "config/plan.h"

namespace tributary::parallel {

/// The virtual stages of a model in the order of the forward pass, and which pp coordinate holds
/// each.
struct StageMap {
  config::PipelineOrder order = config::PipelineOrder::k1f1b;
  int encoder_stages = 0;                   // the first virtual stages, of the vision tower alone
  std::vector<config::StageLayers> layers;  // [virtual stages] of the backbone; of the tower none
  std::vector<int> holders;                 // [virtual stages] pp coordinate

  [[nodiscard]] int size() const { return static_cast<int>(layers.size()); }
  [[nodiscard]] int last() const { return size() - 1; }
  [[nodiscard]] int holder(int virtual_stage) const {
    return holders[static_cast<std::size_t>(virtual_stage)];
  }
  /// Virtual stages of a pp coordinate in the order of its chunks.
  [[nodiscard]] std::vector<int> chunks_of(int pp) const {
    std::vector<int> chunks;
    for (int stage = 0; stage < size(); ++stage)
      if (holder(stage) == pp) chunks.push_back(stage);
    return chunks;
  }
};

}  // namespace tributary::parallel
