#pragma once

#include <vector>

#include "studies/dflop/problem_3d.h"

namespace tributary::studies {

/// Encoder and backbone layers of a stage as shares of their modules.
struct StageShare {
  double encoder = 0;
  double backbone = 0;
};

/// A chain of both modules' layers, cut by their number.
[[nodiscard]] std::vector<StageShare> cut_uniformly(const Problem3d& costs, std::int64_t stages);

/// The encoder on the first stages alone.
[[nodiscard]] std::vector<StageShare> cut_by_module(const Problem3d& costs,
                                                    std::int64_t encoder_stages,
                                                    std::int64_t backbone_stages);

/// The whole encoder on the first stage, beside so many layers of the backbone; the others on the
/// stages behind it.
[[nodiscard]] std::vector<StageShare> cut_behind_encoder(const Problem3d& costs,
                                                         std::int64_t beside, std::int64_t stages);

}  // namespace tributary::studies
