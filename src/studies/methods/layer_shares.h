#pragma once

#include <vector>

#include "studies/dflop/problem_3d.h"

namespace tributary::studies {

/// Encoder and backbone layers of a stage, as fractions of their modules.
struct StageShare {
  double encoder = 0;
  double backbone = 0;
};

/// The layers of both modules as one chain, cut by number.
[[nodiscard]] std::vector<StageShare> cut_uniformly(const Problem3d& costs, std::int64_t stages);

/// The encoder only on the first stages.
[[nodiscard]] std::vector<StageShare> cut_by_module(const Problem3d& costs,
                                                    std::int64_t encoder_stages,
                                                    std::int64_t backbone_stages);

/// The whole encoder on the first stage, with `layers` layers of the backbone; the other layers on
/// the later stages.
[[nodiscard]] std::vector<StageShare> cut_behind_encoder(const Problem3d& costs,
                                                         std::int64_t beside, std::int64_t stages);

}  // namespace tributary::studies
