#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "config/family/model_config.h"

namespace tributary::model {

/// Angles of the backbone's rotary positions. With `mrope_section` the frequencies are split into
/// three runs that follow time, row and column ("chunked"); without it all follow row 0.
///
/// shape:  position_ids [3, tokens] i64 -> returns [tokens, head_width / 2] f32
/// source: docs/theory/numerics.md, "Norms, rotary positions and attention"
[[nodiscard]] at::Tensor rotary_angles(const config::BackboneConfig& config,
                                       const at::Tensor& position_ids);

}  // namespace tributary::model
