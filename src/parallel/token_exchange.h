#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <ATen/core/Tensor.h>

#include "mesh/transport/group.h"
#include "parallel/layout.h"

namespace tributary::parallel {

// Moves between a tensor that every rank of a group holds whole and one whose rows are split over
// them. Each backward is the exact adjoint of its forward; in a group of one all are the identity.
// source: docs/theory/parallelism.md, "Primitive pairs of tensor parallelism"

/// x, from which each rank computes a part of what follows. Backward adds all ranks' gradients.
[[nodiscard]] at::Tensor copy_to_ranks(const at::Tensor& x, const mesh::Group& group);
/// The sum over the ranks. Backward passes the gradient on.
[[nodiscard]] at::Tensor sum_over_ranks(const at::Tensor& x, const mesh::Group& group);
/// Rows of all ranks in their order. Backward adds, and gives each rank its rows.
/// shape: x [rows, ...] -> returns [size * rows, ...]
[[nodiscard]] at::Tensor gather_rows(const at::Tensor& x, const mesh::Group& group);
/// As gather_rows, when every rank uses the result alike: backward takes its rows without a sum.
[[nodiscard]] at::Tensor gather_same_rows(const at::Tensor& x, const mesh::Group& group);
/// The sum over the ranks, of which each keeps its rows. Backward gathers.
/// shape: x [size * rows, ...] -> returns [rows, ...]
[[nodiscard]] at::Tensor sum_and_split_rows(const at::Tensor& x, const mesh::Group& group);
/// This rank's rows of what all hold alike. Backward gathers without a sum.
/// shape: x [size * rows, ...] -> returns [rows, ...]
[[nodiscard]] at::Tensor split_rows(const at::Tensor& x, const mesh::Group& group);

/// The tokens that a column cut works on, from those that this rank keeps.
[[nodiscard]] at::Tensor all_tokens(const at::Tensor& x, const Layout& layout);
/// The sum of a row cut, for the tokens that this rank keeps.
[[nodiscard]] at::Tensor sum_parts(const at::Tensor& x, const Layout& layout);

/// Sends runs of rows to the ranks and receives theirs; backward goes the way back.
/// shape: x [sum(send), ...] -> returns [sum(receive), ...], by rank
[[nodiscard]] at::Tensor exchange_rows(const at::Tensor& x, const mesh::Group& group,
                                       std::span<const std::int64_t> send,
                                       std::span<const std::int64_t> receive);

}  // namespace tributary::parallel
