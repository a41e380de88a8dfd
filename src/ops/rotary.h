#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

namespace tributary::ops {

/// Cosine and sine of each token's angles: made once per pack, used by every layer.
struct RotaryTable {
  at::Tensor cosine;  // [tokens, head_width / 2]
  at::Tensor sine;    // [tokens, head_width / 2]
};

/// Takes cosine and sine of f32 angles and rounds them to `dtype`.
///
/// shape: angles [tokens, head_width / 2] f32
/// dtype: text models take the dtype of their hidden states, vision towers keep f32
[[nodiscard]] RotaryTable make_rotary_table(const at::Tensor& angles, at::ScalarType dtype);

/// Rotates the first `rotated` heads of every token by its angles; copies the other heads.
///
/// Element i of a head is paired with element i + head_width / 2 ("rotate half").
/// shape:  heads [tokens, any, head_width] -> returns the same, contiguous
/// dtype:  the table's inside (f32 table: f32 arithmetic); that of `heads` out
/// cost:   one pass; the table has no gradient
/// source: Su 2021, "RoFormer" (arXiv:2104.09864), section 3.4.2
[[nodiscard]] at::Tensor rotate_heads(const at::Tensor& heads, const RotaryTable& table,
                                      std::int64_t rotated);

}  // namespace tributary::ops
