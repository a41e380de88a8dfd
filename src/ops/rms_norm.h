#pragma once

#include <ATen/core/Tensor.h>

namespace tributary::ops {

/// Divides each row by its root mean square and multiplies by the weight.
///
/// shape:  x [..., width], weight [width] -> returns [..., width]
/// dtype:  any float in and out; the mean in f32 (f64 for f64); the weight is multiplied after the
///         result is rounded to the dtype of x, as transformers does; on CUDA before it is rounded
/// source: Zhang 2019, "Root mean square layer normalization", with epsilon inside the root
[[nodiscard]] at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double epsilon);

}  // namespace tributary::ops
