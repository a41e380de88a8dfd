#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "config/plan/plan.h"

namespace tributary::parallel {

/// The virtual stages of a module in the order of the forward pass, and which pp coordinate holds
/// each.
struct StageMap {
  std::vector<config::StageLayers> layers;  // [virtual stages]
  std::vector<int> holders;                 // [virtual stages] pp coordinate

  [[nodiscard]] int size() const { return static_cast<int>(layers.size()); }
  [[nodiscard]] int last() const { return size() - 1; }
  [[nodiscard]] int holder(int virtual_stage) const {
    return holders[static_cast<std::size_t>(virtual_stage)];
  }
  /// The stage that has the layer; the first where none does.
  [[nodiscard]] int stage_of(std::int64_t layer) const {
    for (int stage = 0; stage < size(); ++stage) {
      const config::StageLayers& own = layers[static_cast<std::size_t>(stage)];
      if (layer >= own.first && layer < own.first + own.layers) return stage;
    }
    return 0;
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
