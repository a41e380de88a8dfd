#include "ops/attend_block.h"

#include <array>
#include <limits>

#include <ATen/ATen.h>

#include "core/error.h"

namespace tributary::ops {
namespace {

// Not every kernel knows shared key heads.
at::Tensor repeat_heads(const at::Tensor& x, std::int64_t heads) {
  return x.size(1) == heads ? x : x.repeat_interleave(heads / x.size(1), 1);
}

at::Tensor add_repeats(const at::Tensor& gradient, std::int64_t kv_heads) {
  if (gradient.size(1) == kv_heads) return gradient;
  return gradient.unflatten(1, {kv_heads, -1}).sum(2);
}

/// CUDA's kernel wants rows of log-sums that end at a multiple of this.
constexpr std::int64_t kLogSumAlignment = 32;

at::Tensor pad_log_sum(const at::Tensor& log_sum) {
  const std::int64_t missing =
      (kLogSumAlignment - log_sum.size(2) % kLogSumAlignment) % kLogSumAlignment;
  return at::constant_pad_nd(log_sum, {0, missing}, std::numeric_limits<double>::infinity())
      .contiguous();
}

void require_fit(const at::Tensor& queries, const at::Tensor& keys, Mask mask) {
  TRIB_CHECK(queries.dim() == 4 && keys.dim() == 4 && queries.size(0) == keys.size(0) &&
                 queries.size(1) % keys.size(1) == 0 &&
                 (mask == Mask::kNone || queries.size(2) == keys.size(2)),
             .what = "ops: queries do not fit the keys of their block",
             .found = tributary::str("queries ", queries.sizes(), ", keys ", keys.sizes()),
             .expected = "[batch, heads, tokens, head_width]");
}

}  // namespace

BlockResult attend_block(const at::Tensor& queries, const at::Tensor& keys,
                         const at::Tensor& values, Mask mask) {
  require_fit(queries, keys, mask);
  const at::Tensor all_keys = repeat_heads(keys, queries.size(1));
  const at::Tensor all_values = repeat_heads(values, queries.size(1));
  const bool causal = mask == Mask::kCausal;
  if (queries.is_cuda()) {
    const auto [out, log_sum, seed, offset] = at::_scaled_dot_product_efficient_attention(
        queries, all_keys, all_values, {}, /*compute_log_sumexp=*/true, /*dropout_p=*/0.0, causal);
    return {out, log_sum.narrow(2, 0, queries.size(2))};
  }
  const auto [out, log_sum] = at::_scaled_dot_product_flash_attention_for_cpu(
      queries, all_keys, all_values, /*dropout_p=*/0.0, causal);
  return {out, log_sum};
}

BlockGradients attend_block_backward(const at::Tensor& gradient, const at::Tensor& queries,
                                     const at::Tensor& keys, const at::Tensor& values,
                                     const BlockResult& all, Mask mask) {
  require_fit(queries, keys, mask);
  const at::Tensor all_keys = repeat_heads(keys, queries.size(1));
  const at::Tensor all_values = repeat_heads(values, queries.size(1));
  const bool causal = mask == Mask::kCausal;
  BlockGradients result;
  if (queries.is_cuda()) {
    const at::Tensor unused = at::zeros({}, queries.options().dtype(at::kLong));  // no dropout
    std::tie(result.queries, result.keys, result.values, std::ignore) =
        at::_scaled_dot_product_efficient_attention_backward(
            gradient, queries, all_keys, all_values, {}, all.out, pad_log_sum(all.log_sum), unused,
            unused, /*dropout_p=*/0.0, std::array<bool, 4>{true, true, true, false}, causal);
  } else {
    std::tie(result.queries, result.keys, result.values) =
        at::_scaled_dot_product_flash_attention_for_cpu_backward(
            gradient, queries, all_keys, all_values, all.out, all.log_sum.contiguous(),
            /*dropout_p=*/0.0, causal);
  }
  result.keys = add_repeats(result.keys, keys.size(1));
  result.values = add_repeats(result.values, keys.size(1));
  return result;
}

BlockResult join_blocks(const BlockResult& a, const BlockResult& b) {
  const at::Tensor log_sum = at::logaddexp(a.log_sum, b.log_sum);
  const at::Tensor share_a = (a.log_sum - log_sum).exp_().unsqueeze(-1);
  const at::Tensor share_b = (b.log_sum - log_sum).exp_().unsqueeze(-1);
  return {a.out.to(at::kFloat) * share_a + b.out.to(at::kFloat) * share_b, log_sum};
}

}  // namespace tributary::ops
