#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

namespace tributary::ops {

/// Attends from one new token of each sample to the keys and values kept for it.
///
/// shape:  q [samples, heads, head_width]; keys_values [samples, kept, 2 * kv_heads, head_width],
///         keys first; hidden [samples, 1, 1, kept] is added to the scores: 0, or -inf at columns
///         that hold no token, or undefined -> returns [samples, heads, head_width]
/// dtype:  any float; softmax and sums in f32
/// cost:   reads the cache once: query heads of one key head go as rows of one product
[[nodiscard]] at::Tensor attend_cached(const at::Tensor& q, const at::Tensor& keys_values,
                                       const at::Tensor& hidden);

}  // namespace tributary::ops
