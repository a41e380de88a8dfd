#pragma once

#include <ATen/core/Tensor.h>

namespace tributary::ops {

/// Gives -log softmax(logits)[target] of each row.
///
/// shape: logits [rows, vocab], targets [rows] i64, each in [0, vocab) -> returns [rows]
/// dtype: any float in; softmax and result in f32 (f64 for f64)
[[nodiscard]] at::Tensor cross_entropy(const at::Tensor& logits, const at::Tensor& targets);

}  // namespace tributary::ops
