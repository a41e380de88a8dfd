#pragma once

#include <ATen/core/Tensor.h>

namespace tributary::ops {

/// A reordering of rows and its inverse.
struct RowOrder {
  at::Tensor row_at;    // [rows] i64: the row that comes to each place
  at::Tensor place_of;  // [rows] i64: the place of each row
};

/// Reorders rows; backward reorders the gradients back, without a sum.
///
/// shape: x [rows, ...] -> returns the same shape, row i being x[order.row_at[i]]
/// cost:  one copy each way
[[nodiscard]] at::Tensor permute_rows(const at::Tensor& x, const RowOrder& order);

}  // namespace tributary::ops
