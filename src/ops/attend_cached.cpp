#include "ops/attend_cached.h"

#include <optional>

#include <ATen/ATen.h>

#include "core/error.h"

namespace tributary::ops {

at::Tensor attend_cached(const at::Tensor& q, const at::Tensor& keys_values,
                         const at::Tensor& hidden) {
  const std::int64_t samples = q.size(0);
  const std::int64_t heads = q.size(1);
  const std::int64_t kv_heads = keys_values.size(2) / 2;
  TRIB_CHECK(keys_values.size(0) == samples && heads % kv_heads == 0,
             .what = "ops: cached attention inputs do not fit each other",
             .found = tributary::str("q ", q.sizes(), ", keys_values ", keys_values.sizes()));
  const at::Tensor grouped = q.view({samples, kv_heads, heads / kv_heads, q.size(2)});
  const at::Tensor keys = keys_values.narrow(2, 0, kv_heads).transpose(1, 2);
  const at::Tensor values = keys_values.narrow(2, kv_heads, kv_heads).transpose(1, 2);
  const auto mask = hidden.defined() ? std::optional(hidden) : std::nullopt;
  return at::scaled_dot_product_attention(grouped, keys, values, mask)
      .reshape({samples, heads, q.size(2)});
}

}  // namespace tributary::ops
