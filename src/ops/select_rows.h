#pragma once

#include <ATen/core/Tensor.h>

namespace tributary::ops {

/// Selects rows that are all different: backward only copies, while that of index_select adds.
///
/// shape: x [rows, ...], chosen [n] i64 without repeats -> returns [n, ...]
[[nodiscard]] at::Tensor select_rows(const at::Tensor& x, const at::Tensor& chosen);

}  // namespace tributary::ops
