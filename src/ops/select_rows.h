#pragma once

#include <ATen/core/Tensor.h>

namespace tributary::ops {

/// Selects rows that are all different; backward copies, where that of index_select must add.
///
/// shape: x [rows, ...], chosen [n] i64 without repeats -> returns [n, ...]
[[nodiscard]] at::Tensor select_rows(const at::Tensor& x, const at::Tensor& chosen);

}  // namespace tributary::ops
