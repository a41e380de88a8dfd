#pragma once

#include <cstdint>
#include <memory>

#include <ATen/core/Tensor.h>

#include "mesh/transport/group.h"

namespace tributary::parallel {

// Ulysses: ranks that hold slices of a row, with all heads, exchange them for the whole row with
// some heads, attend, and exchange back.
// source: docs/theory/parallelism.md, "Head exchange"

/// An exchange under way. It travels while whatever comes between its start and its arrival is
/// computed; in backward its gradient travels while that work is differentiated.
class Travelling {
 public:
  class State;
  Travelling(at::Tensor rows, std::shared_ptr<State> state)
      : rows_(std::move(rows)), state_(std::move(state)) {}
  /// Waits for the exchange; call it once.
  [[nodiscard]] at::Tensor arrive() const;

 private:
  at::Tensor rows_;
  std::shared_ptr<State> state_;
};

/// Sends equally many rows to every rank and receives theirs.
/// shape: x [size * rows, ...] -> arrives as [size * rows, ...], by rank
/// collective: over the group
[[nodiscard]] Travelling start_exchange(const at::Tensor& x, const mesh::Group& group);

/// Groups heads by the rank that gets them; fewer heads than ranks are repeated, and the gradients
/// of repeats are added.
/// shape: x [tokens, heads, head_width] -> returns [tokens, ranks, heads a rank, head_width]
[[nodiscard]] at::Tensor heads_by_rank(const at::Tensor& x, std::int64_t ranks);

/// shape: by_rank [tokens, ranks, heads, head_width] -> arrives as [ranks * tokens, heads,
///        head_width]: the row of all ranks, with this rank's heads
[[nodiscard]] Travelling start_to_heads(const at::Tensor& by_rank, const mesh::Group& group);
/// The inverse of start_to_heads.
/// shape: x [ranks * tokens, heads, head_width] -> returns [tokens, ranks * heads, head_width]
[[nodiscard]] at::Tensor to_tokens(const at::Tensor& x, const mesh::Group& group);

}  // namespace tributary::parallel
