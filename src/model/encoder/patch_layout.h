#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <ATen/core/Tensor.h>

#include "config/family/model_config.h"
#include "core/sample_shape.h"
#include "model/encoder/window_index.h"
#include "ops/attend_packed.h"
#include "ops/permute_rows.h"
#include "ops/rotary.h"

namespace tributary::model {

/// Taps of a learned table of positions, by which a patch takes the values of its neighbours.
struct PositionTaps {
  at::Tensor rows;     // [4, patches] i64, of the table
  at::Tensor weights;  // [4, patches] f32
};

/// Everything about a list of grids that does not depend on pixels or parameters.
struct PatchLayout {
  PatchLayout(std::span<const Grid> of, const config::VisionConfig& config, at::Device on);

  std::vector<Grid> grids;
  at::Device device;
  ops::SampleGroups windows;  // the frames, where the tower has no windows
  ops::SampleGroups frames;
  ops::RotaryTable rotary;
  std::optional<ops::RowOrder> order;  // of merged tokens; null: that in which they come
  std::optional<PositionTaps> taps;    // of a tower with a learned table

 private:
  PatchLayout(std::span<const Grid> of, const config::VisionConfig& config,
              const WindowIndex& index, at::Device on);
};

}  // namespace tributary::model
