#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "config/pipeline_order.h"
#include "config/plan/plan.h"

namespace tributary::parallel {

/// The virtual stages of a model in the order of the forward pass, and which pp coordinate holds
/// each.
struct StageMap {
  config::PipelineOrder order = config::PipelineOrder::k1f1b;
  int encoder_stages = 0;  // the first virtual stages, which hold only the vision tower
  std::vector<config::StageLayers> layers;  // [virtual stages] of the tower, or of the backbone
  std::vector<int> holders;                 // [virtual stages] pp coordinate

  [[nodiscard]] int size() const { return static_cast<int>(layers.size()); }
  [[nodiscard]] int last() const { return size() - 1; }
  [[nodiscard]] int holder(int virtual_stage) const {
    return holders[static_cast<std::size_t>(virtual_stage)];
  }
  /// The stage in [begin, end) that has the layer; `begin` where none does.
  [[nodiscard]] int stage_of(std::int64_t layer, int begin, int end) const {
    for (int stage = begin; stage < end; ++stage) {
      const config::StageLayers& own = layers[static_cast<std::size_t>(stage)];
      if (layer >= own.first && layer < own.first + own.layers) return stage;
    }
    return begin;
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
