#pragma once

#include <ATen/core/Tensor.h>

namespace tributary::ops {

/// Multiplies rows by a weight and adds a bias: x W^T + b.
///
/// shape: x [rows, in], weight [out, in], bias [out] or undefined -> returns [rows, out]
/// dtype: one for all; sums in f32. On CPU a bf16 or f16 product runs in f32 and is rounded once
/// cost:  2 * rows * in * out FLOPs forward, twice that backward
[[nodiscard]] at::Tensor linear(const at::Tensor& x, const at::Tensor& weight,
                                const at::Tensor& bias);

}  // namespace tributary::ops
