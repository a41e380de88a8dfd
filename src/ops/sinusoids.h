#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

namespace tributary::ops {

/// A table of positions: in row p the sines, then the cosines, of p times frequencies that fall
/// from 1 to 1/10000.
///
/// shape:  returns [rows, width] f32 on the host; width is even
/// source: Radford 2022, "Whisper" (arXiv:2212.04356), section 2.2
[[nodiscard]] at::Tensor sinusoids(std::int64_t rows, std::int64_t width);

}  // namespace tributary::ops
