#include "parallel/sequence/token_split.h"

#include <algorithm>

#include <ATen/ATen.h>

#include "core/error.h"
#include "ops/to_device.h"

namespace tributary::parallel {
namespace {

constexpr std::int64_t kPadding = -1;

std::int64_t round_up(std::int64_t value, std::int64_t step) {
  return (value + step - 1) / step * step;
}

}  // namespace

TokenSplit::TokenSplit(std::span<const std::int32_t> cu_seqlens, const Layout& layout)
    : cu_seqlens_(cu_seqlens.begin(), cu_seqlens.end()) {
  const bool over_tp = layout.splits_tokens();
  std::int64_t slice = 0;
  if (layout.splits_sequence()) {
    ring_ranks_ = layout.mesh->cp().size();
    ring_index_ = layout.mesh->cp().index();
    slices_ = layout.mesh->ulysses().size();
    slice = layout.mesh->ulysses().index();
  }
  if (over_tp) tp_parts_ = layout.tp().size();
  multiple_ = slices_ * tp_parts_;
  is_whole_ = ring_ranks_ * multiple_ == 1;
  for (std::int64_t rank = 0; rank < ring_ranks_; ++rank) {
    std::vector<std::int64_t>& first = first_rows_.emplace_back(1, 0);
    for (std::int64_t sample = 0; sample < samples(); ++sample)
      first.push_back(first.back() + piece(sample, rank).count +
                      piece(sample, 2 * ring_ranks_ - 1 - rank).count);
  }
  if (is_whole_) return;  // one rank always returns here
  const std::vector<std::int64_t> row = row_of(ring_index_);
  const auto count = static_cast<std::ptrdiff_t>(row.size()) / slices_;
  kept_.assign(row.begin() + slice * count, row.begin() + (slice + 1) * count);
}

Range TokenSplit::piece(std::int64_t sample, std::int64_t piece) const {
  const std::int64_t first = cu_seqlens_[static_cast<std::size_t>(sample)];
  const std::int64_t length = cu_seqlens_[static_cast<std::size_t>(sample) + 1] - first;
  const std::int64_t pieces = 2 * ring_ranks_;
  const std::int64_t begin = length * piece / pieces;
  return {first + begin, length * (piece + 1) / pieces - begin};
}

TokenSplit::Pieces TokenSplit::pieces(std::int64_t ring_rank, std::int64_t sample) const {
  return {first_rows_[static_cast<std::size_t>(ring_rank)][static_cast<std::size_t>(sample)],
          piece(sample, ring_rank).count, piece(sample, 2 * ring_ranks_ - 1 - ring_rank).count};
}

std::int64_t TokenSplit::rows(std::int64_t ring_rank) const {
  const std::int64_t tokens = first_rows_[static_cast<std::size_t>(ring_rank)].back();
  // At least one, so that no kernel meets an empty row.
  return is_whole_ ? tokens : round_up(std::max<std::int64_t>(tokens, 1), multiple_);
}

std::vector<std::int32_t> TokenSplit::row_boundaries() const {
  const std::vector<std::int64_t>& first = first_rows_[static_cast<std::size_t>(ring_index_)];
  std::vector<std::int32_t> boundaries(first.begin(), first.end());
  const auto end = static_cast<std::int32_t>(rows(ring_index_));
  if (end > boundaries.back()) boundaries.push_back(end);
  return boundaries;
}

std::vector<std::int64_t> TokenSplit::row_of(std::int64_t ring_rank) const {
  std::vector<std::int64_t> row;
  row.reserve(static_cast<std::size_t>(rows(ring_rank)));
  for (std::int64_t sample = 0; sample < samples(); ++sample)
    for (const std::int64_t which : {ring_rank, 2 * ring_ranks_ - 1 - ring_rank}) {
      const Range range = piece(sample, which);
      for (std::int64_t i = 0; i < range.count; ++i) row.push_back(range.first + i);
    }
  row.resize(static_cast<std::size_t>(rows(ring_rank)), kPadding);
  return row;
}

at::Tensor TokenSplit::keep(const at::Tensor& of_tokens, double padding) const {
  TRIB_CHECK(of_tokens.size(-1) == tokens(), .what = "parallel: not one value a token of the pack",
             .found = tributary::str(of_tokens.sizes()), .expected = str(tokens(), " tokens"));
  if (is_whole_) return of_tokens;
  const at::Tensor places = ops::to_device(at::tensor(kept_, at::kLong), of_tokens.device());
  const at::Tensor is_padding = places.lt(0);
  if (tokens() == 0) {
    std::vector<std::int64_t> shape = of_tokens.sizes().vec();
    shape.back() = places.size(0);
    return at::full(shape, padding, of_tokens.options());
  }
  return of_tokens.index_select(-1, places.clamp_min(0)).masked_fill(is_padding, padding);
}

std::vector<TokenSplit::Home> TokenSplit::homes() const {
  std::vector<Home> homes(static_cast<std::size_t>(tokens()));
  for (std::int64_t rank = 0; rank < ring_ranks_; ++rank) {
    const std::vector<std::int64_t> row = row_of(rank);
    const auto slice = static_cast<std::int64_t>(row.size()) / slices_;
    for (std::int64_t i = 0; i < static_cast<std::int64_t>(row.size()); ++i) {
      const std::int64_t token = row[static_cast<std::size_t>(i)];
      if (token == kPadding) continue;
      homes[static_cast<std::size_t>(token)] = {rank * slices_ + i / slice, i % slice};
    }
  }
  return homes;
}

}  // namespace tributary::parallel
