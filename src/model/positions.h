#pragma once

#include <cstdint>
#include <span>

#include <ATen/core/Tensor.h>

#include "config/family/model_config.h"
#include "config/run/run_config.h"
#include "core/sample_shape.h"

namespace tributary::model {

/// A pack of samples, as far as positions depend on it.
struct PositionInputs {
  std::span<const std::int64_t> tokens;      // media placeholders already expanded
  std::span<const std::int32_t> cu_seqlens;  // [samples + 1]
  std::span<const Grid> images = {};         // in order of appearance
  std::span<const Grid> videos = {};
  std::span<const double> seconds_per_step = {};  // of each clip; empty: 1 second each
};

/// Gives every token its place in time, row and column; they restart at 0 in every sample. Models
/// without a vision tower get three equal rows.
///
/// shape:  returns [3, tokens] i64 on the CPU
/// units:  `mode` rules the time axis of clips: kOfficial counts fractions of seconds and continues
///         after the largest position, kHf5 (transformers 5.9 to 5.17) takes whole seconds and
///         continues after the picture's longer side
/// errors: Fault::kInput naming sample and token when placeholders and grids do not match, and for
/// a
///         sample that outgrows a dynamic rope
/// source: docs/theory/numerics.md, "Positions in time, row and column"
[[nodiscard]] at::Tensor position_ids(const config::ModelConfig& config,
                                      const PositionInputs& inputs, config::MropeMode mode);

/// Refuses positions that a dynamic rope turns in another way than all before them.
/// shape: positions [3, tokens] on the CPU
void require_in_rope(const config::BackboneConfig& backbone, const at::Tensor& positions);

}  // namespace tributary::model
