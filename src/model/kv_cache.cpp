#include "model/kv_cache.h"

#include <algorithm>
#include <limits>

#include <ATen/ATen.h>

#include "core/error.h"
#include "ops/to_device.h"

namespace tributary::model {

void KvCache::start(std::span<const std::int32_t> cu_seqlens, const at::Tensor& position_ids,
                    std::int64_t layers) {
  TRIB_CHECK(layers_.empty() && cu_seqlens.size() > 1,
             .what = "model: cache started twice or empty");
  std::int64_t longest = 0;
  for (std::size_t i = 0; i + 1 < cu_seqlens.size(); ++i) {
    TRIB_CHECK(cu_seqlens[i + 1] > cu_seqlens[i], .what = "model: empty prompt",
               .found = str("sample ", i));
    longest = std::max<std::int64_t>(longest, cu_seqlens[i + 1] - cu_seqlens[i]);
  }
  std::vector<std::int64_t> last_tokens;
  std::vector<std::int64_t> token_of_column;
  for (std::size_t i = 0; i + 1 < cu_seqlens.size(); ++i) {
    first_columns_.push_back(longest - (cu_seqlens[i + 1] - cu_seqlens[i]));
    last_tokens.push_back(cu_seqlens[i + 1] - 1);
    for (std::int64_t column = 0; column < longest; ++column)  // hidden columns copy token 0
      token_of_column.push_back(std::max<std::int64_t>(0, cu_seqlens[i + 1] - longest + column));
  }
  const at::Device device = position_ids.device();
  starts_ = ops::to_device(at::tensor(first_columns_, at::kLong), device);
  token_of_column_ = ops::to_device(at::tensor(token_of_column, at::kLong), device);
  const at::Tensor last = ops::to_device(at::tensor(last_tokens, at::kLong), device);
  next_positions_ = position_ids.select(0, 0).index_select(0, last) + 1;
  columns_ = longest;
  capacity_ = longest + new_tokens_;
  layers_.resize(static_cast<std::size_t>(layers));
}

void KvCache::fill(std::int64_t layer, const at::Tensor& keys_values) {
  at::Tensor& kept = layers_.at(static_cast<std::size_t>(layer));
  kept = at::empty({samples(), capacity_, keys_values.size(1), keys_values.size(2)},
                   keys_values.options());
  const at::Tensor columns = keys_values.index_select(0, token_of_column_);
  kept.narrow(1, 0, columns_)
      .copy_(columns.view({samples(), columns_, keys_values.size(1), keys_values.size(2)}));
}

void KvCache::advance() {
  TRIB_CHECK(columns_ < capacity_, .what = "model: cache is full",
             .found = str(columns_, " columns"), .expected = "at most new_tokens decoded");
  ++columns_;
  next_positions_ = next_positions_ + 1;
}

at::Tensor KvCache::append(std::int64_t layer, const at::Tensor& keys_values) {
  const at::Tensor& kept = layers_.at(static_cast<std::size_t>(layer));
  kept.select(1, columns_ - 1).copy_(keys_values);
  return kept.narrow(1, 0, columns_);
}

void KvCache::keep(std::span<const std::int64_t> samples) {
  std::vector<std::int64_t> first_columns;
  for (const std::int64_t sample : samples)
    first_columns.push_back(first_columns_.at(static_cast<std::size_t>(sample)));
  first_columns_ = std::move(first_columns);
  const at::Tensor rows = ops::to_device(
      at::tensor(at::IntArrayRef(samples.data(), samples.size()), at::kLong), starts_.device());
  starts_ = starts_.index_select(0, rows);
  next_positions_ = next_positions_.index_select(0, rows);
  for (at::Tensor& layer : layers_)  // undefined on other pipeline stages
    if (layer.defined()) layer = layer.index_select(0, rows);
}

at::Tensor KvCache::positions() const { return (next_positions_ - 1).unsqueeze(0).expand({3, -1}); }

at::Tensor KvCache::hidden_columns(at::ScalarType dtype) const {
  if (std::ranges::all_of(first_columns_, [](std::int64_t first) { return first == 0; })) return {};
  const at::Tensor column = at::arange(columns_, starts_.options());
  const at::Tensor is_hidden = column.unsqueeze(0) < starts_.unsqueeze(1);
  const at::Tensor zeros = at::zeros(is_hidden.sizes(), starts_.options().dtype(dtype));
  return zeros.masked_fill_(is_hidden, -std::numeric_limits<double>::infinity())
      .view({samples(), 1, 1, columns_});
}

}  // namespace tributary::model
