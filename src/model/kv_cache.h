#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <ATen/core/Tensor.h>

namespace tributary::model {

/// Keys and values of the tokens seen so far, for decoding several samples at once.
///
/// Samples end at the same column: shorter ones begin later and the columns before them are hidden.
/// So a step writes one column for all.
/// cost: samples * (longest prompt + new tokens) * 2 * kv_heads * head_width elements a layer,
///       allocated when the prompts are known
class KvCache {
 public:
  /// `new_tokens`: how many tokens will be decoded at most.
  explicit KvCache(std::int64_t new_tokens) : new_tokens_(new_tokens) {}

  /// Sets samples and columns from the prompts; called by Model::prefill.
  /// errors: Fault::kBug when the cache was used before or a prompt is empty
  void start(std::span<const std::int32_t> cu_seqlens, const at::Tensor& position_ids,
             std::int64_t layers);
  /// Stores the prompts' keys and values of one layer.
  /// shape: keys_values [tokens, 2 * kv_heads, head_width]
  void fill(std::int64_t layer, const at::Tensor& keys_values);

  /// Opens the column of the next token. errors: Fault::kBug when new_tokens were decoded
  void advance();
  /// Stores the newest token of every sample; returns what is kept, it included.
  /// shape: keys_values [samples, 2 * kv_heads, head_width] -> returns
  ///        [samples, kept, 2 * kv_heads, head_width]
  [[nodiscard]] at::Tensor append(std::int64_t layer, const at::Tensor& keys_values);

  /// Goes on with only these samples, in this order: finished ones cost nothing more.
  /// shape: samples [kept samples]
  void keep(std::span<const std::int64_t> samples);

  [[nodiscard]] std::int64_t samples() const { return std::ssize(first_columns_); }
  [[nodiscard]] std::int64_t columns() const { return columns_; }
  /// Positions of the newest tokens. shape: [3, samples] i64
  [[nodiscard]] at::Tensor positions() const;
  /// Added to the scores: -inf at columns before a sample. shape: [samples, 1, 1, columns], or
  /// undefined when all prompts that are left begin at the first column
  /// stream: the host does not wait
  [[nodiscard]] at::Tensor hidden_columns(at::ScalarType dtype) const;

 private:
  std::int64_t new_tokens_;
  std::int64_t capacity_ = 0;
  std::int64_t columns_ = 0;
  std::vector<std::int64_t> first_columns_;  // [samples] where each sample begins
  at::Tensor starts_;                        // the same on the device
  at::Tensor next_positions_;                // [samples] of the token after the newest
  at::Tensor token_of_column_;               // [samples * longest prompt]
  std::vector<at::Tensor> layers_;           // [samples, capacity, 2 * kv_heads, head_width]
};

}  // namespace tributary::model
