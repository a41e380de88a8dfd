#pragma once

#include <ATen/core/Tensor.h>

namespace tributary::ops {

/// Sums -log softmax(logits)[target] over the rows.
///
/// shape: logits [rows, vocab], targets [rows] i64, each in [0, vocab) -> returns a scalar
/// dtype: any float in; softmax, sum and result in f32 (f64 for f64)
[[nodiscard]] at::Tensor cross_entropy(const at::Tensor& logits, const at::Tensor& targets);

}  // namespace tributary::ops
