#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <ATen/core/Tensor.h>

namespace tributary::ops {

enum class Mask { kNone, kCausal };

/// How the samples of a pack go into few attention calls: made once, used by every layer.
///
/// On a CPU samples of one group are attended in one call. Without a mask a group has one length;
/// with the causal mask shorter samples are padded at the end, where no real token looks. On CUDA
/// one call attends all samples by their boundaries, and nothing is padded or moved.
class SampleGroups {
 public:
  struct Group {
    std::int64_t samples = 0;
    std::int64_t length = 0;  // tokens of the longest
  };

  /// units:  cu_seqlens counts tokens: 0 first, the number of tokens last, ascending; an empty
  ///         sample is legal. Windows and frames are samples here.
  /// errors: Fault::kBug when cu_seqlens does not ascend from 0
  SampleGroups(std::span<const std::int32_t> cu_seqlens, Mask mask, at::Device device);

  [[nodiscard]] Mask mask() const { return mask_; }
  [[nodiscard]] const std::vector<Group>& groups() const { return groups_; }  // empty on CUDA
  [[nodiscard]] std::int64_t tokens() const { return tokens_; }
  /// Rows of all groups, padding included.
  [[nodiscard]] std::int64_t rows() const { return rows_; }
  /// True when the pack already lies as the groups want it, so nothing moves.
  [[nodiscard]] bool in_place() const { return !token_of_row_.defined(); }
  [[nodiscard]] const at::Tensor& token_of_row() const { return token_of_row_; }  // [rows] i64
  [[nodiscard]] const at::Tensor& row_of_token() const { return row_of_token_; }  // [tokens] i64
  [[nodiscard]] const at::Tensor& padding_rows() const { return padding_rows_; }  // [padding] i64

  /// On CUDA alone: where the samples that are not empty begin and end, and the longest of them.
  [[nodiscard]] const at::Tensor& boundaries() const { return boundaries_; }  // [samples + 1] i32
  [[nodiscard]] std::int64_t longest() const { return longest_; }

 private:
  void keep_boundaries(std::span<const std::int32_t> cu_seqlens, at::Device device);
  void group(std::span<const std::int32_t> cu_seqlens, at::Device device);

  Mask mask_;
  std::int64_t tokens_ = 0;
  std::int64_t rows_ = 0;
  std::int64_t longest_ = 0;
  std::vector<Group> groups_;
  at::Tensor boundaries_;
  at::Tensor token_of_row_;
  at::Tensor row_of_token_;
  at::Tensor padding_rows_;
};

/// Attends inside each sample of a pack; tokens of different samples never meet.
///
/// shape:  qkv [tokens, heads + 2 * kv_heads, head_width]: query heads, then key heads, then value
///         heads, as one joined projection gives them -> returns [tokens, heads, head_width]
/// dtype:  any float in and out; softmax and sums in f32
/// errors: Fault::kBug when heads is no multiple of kv_heads or the shapes disagree
/// cost:   4 * heads * head_width * sum(length^2) FLOPs forward, 2.5 times that backward
/// source: Dao 2023, "FlashAttention-2" (arXiv:2307.08691), section 3.1, in libtorch's kernels
[[nodiscard]] at::Tensor attend_packed(const at::Tensor& qkv, std::int64_t heads,
                                       std::int64_t kv_heads, const SampleGroups& groups);

}  // namespace tributary::ops
