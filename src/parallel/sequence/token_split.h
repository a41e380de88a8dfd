#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <ATen/core/Tensor.h>

#include "parallel/layout.h"
#include "parallel/parameter.h"

namespace tributary::parallel {

/// Which tokens of a pack each rank keeps: computed only from the lengths, alike on all ranks.
///
/// Each sample is cut into 2 cp nearly equal pieces. Ring rank r (cp) keeps a row of pieces r and
/// 2 cp - 1 - r of all samples, so that under the causal mask all ranks have equal work. Its
/// ulysses ranks keep consecutive slices of the row, and tp ranks parts of a slice where the layout
/// splits tokens over tp. Rows are padded to slices of equal length, and have at least one token.
/// source: docs/theory/parallelism.md, "Order of tokens" and "Balanced split of a causal row"
class TokenSplit {
 public:
  /// units: cu_seqlens as in model::PackedBatch
  TokenSplit(std::span<const std::int32_t> cu_seqlens, const Layout& layout);

  /// Whether every rank keeps the whole pack as it is.
  [[nodiscard]] bool is_whole() const { return is_whole_; }
  [[nodiscard]] std::int64_t tokens() const { return cu_seqlens_.back(); }  // of the pack
  [[nodiscard]] std::int64_t samples() const {
    return static_cast<std::int64_t>(cu_seqlens_.size()) - 1;
  }
  [[nodiscard]] std::int64_t ring_ranks() const { return ring_ranks_; }
  [[nodiscard]] std::int64_t ring_index() const { return ring_index_; }

  /// Tokens of the pack in piece `piece` of 2 * ring_ranks() of a sample.
  [[nodiscard]] Range piece(std::int64_t sample, std::int64_t piece) const;
  /// Rows of a ring rank, padding included.
  [[nodiscard]] std::int64_t rows(std::int64_t ring_rank) const;
  /// The two pieces of a sample in the row of a ring rank: they lie back to back.
  struct Pieces {
    std::int64_t first = 0;  // row
    std::int64_t front = 0;  // tokens
    std::int64_t back = 0;
  };
  [[nodiscard]] Pieces pieces(std::int64_t ring_rank, std::int64_t sample) const;
  /// Boundaries of the samples in this ring rank's row; the padding is one more sample.
  [[nodiscard]] std::vector<std::int32_t> row_boundaries() const;

  /// Hidden states that this rank has outside of column and row pairs.
  [[nodiscard]] std::int64_t hidden_rows() const {
    return is_whole_ ? tokens() : std::ssize(kept_) / tp_parts_;
  }

  /// Tokens of the pack that this rank works on, all its tp ranks together; -1: padding. Empty
  /// where it keeps the whole.
  [[nodiscard]] const std::vector<std::int64_t>& kept() const { return kept_; }
  /// What this rank keeps of a value of each token, `padding` where there is none.
  /// shape: [..., tokens] -> returns [..., kept]
  [[nodiscard]] at::Tensor keep(const at::Tensor& of_tokens, double padding) const;

  /// Where a token of the pack is kept: the rank in cp x ulysses, and its row there.
  struct Home {
    std::int64_t rank = 0;
    std::int64_t row = 0;
  };
  [[nodiscard]] std::vector<Home> homes() const;

 private:
  [[nodiscard]] std::vector<std::int64_t> row_of(std::int64_t ring_rank) const;

  std::vector<std::int64_t> cu_seqlens_;
  std::int64_t ring_ranks_ = 1;
  std::int64_t ring_index_ = 0;
  std::int64_t slices_ = 1;    // of a row, over ulysses
  std::int64_t tp_parts_ = 1;  // of a slice
  std::int64_t multiple_ = 1;  // of which a row is
  bool is_whole_ = true;
  std::vector<std::vector<std::int64_t>> first_rows_;  // [ring rank][sample], then the end
  std::vector<std::int64_t> kept_;
};

}  // namespace tributary::parallel
