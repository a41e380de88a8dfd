#include "ops/attend_packed.h"

#include <algorithm>
#include <cmath>

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include "core/error.h"
#include "ops/to_device.h"

namespace tributary::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Variable;
using torch::autograd::variable_list;

/// Tokens -> rows of the groups. No real row attends to a padding row, so its content (a copy of
/// token 0) does not matter, and its gradient is dropped.
struct TokensToRows : torch::autograd::Function<TokensToRows> {
  static Variable forward(AutogradContext* context, const Variable& tokens,
                          const Variable& token_of_row, const Variable& row_of_token) {
    context->save_for_backward({row_of_token});
    return tokens.index_select(0, token_of_row);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const at::Tensor row_of_token = context->get_saved_variables()[0];
    return {gradients[0].index_select(0, row_of_token), Variable(), Variable()};
  }
};

/// Rows of the groups -> tokens; padding rows get gradient 0.
struct RowsToTokens : torch::autograd::Function<RowsToTokens> {
  static Variable forward(AutogradContext* context, const Variable& rows,
                          const Variable& token_of_row, const Variable& row_of_token,
                          const Variable& padding_rows) {
    context->save_for_backward({token_of_row, padding_rows});
    return rows.index_select(0, row_of_token);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    at::Tensor rows = gradients[0].index_select(0, saved[0]);
    if (saved[1].numel() > 0) rows.index_fill_(0, saved[1], 0);
    return {rows, Variable(), Variable(), Variable()};
  }
};

/// rows [samples * length, heads + 2 * kv_heads, head_width] -> [samples * length, heads,
/// head_width]
at::Tensor attend_group(const at::Tensor& rows, SampleGroups::Group group, std::int64_t heads,
                        std::int64_t kv_heads, Mask mask) {
  const at::Tensor batch =
      rows.view({group.samples, group.length, rows.size(1), rows.size(2)}).transpose(1, 2);
  const std::vector<at::Tensor> qkv = batch.split_with_sizes({heads, kv_heads, kv_heads}, 1);
  const at::Tensor out = at::scaled_dot_product_attention(
      qkv[0], qkv[1], qkv[2], {}, /*dropout_p=*/0.0, /*is_causal=*/mask == Mask::kCausal,
      /*scale=*/{}, /*enable_gqa=*/heads != kv_heads);
  return out.transpose(1, 2).reshape({group.samples * group.length, heads, rows.size(2)});
}

/// All samples of a pack in one call, by a kernel of CUDA that reads their boundaries. In bf16 that
/// is flash attention; its f32 counterpart does not know shared key heads.
at::Tensor attend_by_boundaries(const at::Tensor& qkv, std::int64_t heads, std::int64_t kv_heads,
                                const SampleGroups& groups) {
  constexpr std::int64_t kWidthStep = 8;  // the kernels read so many elements at once
  const std::int64_t width = qkv.size(2);
  const double scale = 1.0 / std::sqrt(static_cast<double>(width));
  const std::int64_t missing = (kWidthStep - width % kWidthStep) % kWidthStep;
  const at::Tensor padded = missing == 0 ? qkv : at::constant_pad_nd(qkv, {0, missing});
  const std::vector<at::Tensor> parts = padded.split_with_sizes({heads, kv_heads, kv_heads}, 1);
  const at::Tensor& boundaries = groups.boundaries();
  const bool causal = groups.mask() == Mask::kCausal;
  at::Tensor out;
  if (at::isReducedFloatingType(qkv.scalar_type())) {
    out = std::get<0>(at::_flash_attention_forward(
        parts[0], parts[1], parts[2], boundaries, boundaries, groups.longest(), groups.longest(),
        /*dropout_p=*/0.0, causal, /*return_debug_mask=*/false, scale));
  } else {
    const auto batch_of = [&](const at::Tensor& part) {
      return part.repeat_interleave(heads / part.size(1), 1).unsqueeze(0);
    };
    enum CustomMask { kNoMask, kCausalFromTopLeft };
    out = std::get<0>(at::_efficient_attention_forward(
                          parts[0].unsqueeze(0), batch_of(parts[1]), batch_of(parts[2]),
                          /*bias=*/{}, boundaries, boundaries, groups.longest(), groups.longest(),
                          /*dropout_p=*/0.0, causal ? kCausalFromTopLeft : kNoMask,
                          /*compute_log_sumexp=*/at::GradMode::is_enabled(), scale))
              .squeeze(0);
  }
  return missing == 0 ? out : out.narrow(2, 0, width);
}

/// Whether a sample joins a group. It may be padded by a third; among short samples threefold,
/// since a call of its own costs more than that.
bool joins(std::int64_t length, std::int64_t longest, Mask mask) {
  if (mask == Mask::kNone) return length == longest;
  constexpr std::int64_t kShort = 48;
  return longest <= kShort ? 3 * length >= longest : 4 * length >= 3 * longest;
}

}  // namespace

SampleGroups::SampleGroups(std::span<const std::int32_t> cu_seqlens, Mask mask, at::Device device)
    : mask_(mask) {
  TRIB_CHECK(!cu_seqlens.empty() && cu_seqlens.front() == 0 &&
                 std::is_sorted(cu_seqlens.begin(), cu_seqlens.end()),
             .what = "ops: sample boundaries do not ascend from 0",
             .found = cu_seqlens.empty() ? "no boundary" : str("first ", cu_seqlens.front()));
  tokens_ = cu_seqlens.back();
  if (device.is_cuda())
    keep_boundaries(cu_seqlens, device);
  else
    group(cu_seqlens, device);
}

void SampleGroups::keep_boundaries(std::span<const std::int32_t> cu_seqlens, at::Device device) {
  std::vector<std::int32_t> boundaries(cu_seqlens.begin(), cu_seqlens.end());
  boundaries.erase(std::unique(boundaries.begin(), boundaries.end()), boundaries.end());
  for (std::size_t i = 1; i < boundaries.size(); ++i)
    longest_ = std::max(longest_, std::int64_t{boundaries[i] - boundaries[i - 1]});
  rows_ = tokens_;
  boundaries_ = to_device(at::tensor(boundaries, at::kInt), device);
}

void SampleGroups::group(std::span<const std::int32_t> cu_seqlens, at::Device device) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i + 1 < cu_seqlens.size(); ++i)
    if (cu_seqlens[i + 1] > cu_seqlens[i]) order.push_back(i);
  const auto length_of = [&](std::size_t i) {
    return std::int64_t{cu_seqlens[i + 1] - cu_seqlens[i]};
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return length_of(a) > length_of(b); });

  std::vector<std::int64_t> token_of_row;
  std::vector<std::int64_t> row_of_token(static_cast<std::size_t>(tokens_));
  std::vector<std::int64_t> padding;
  bool moved = false;
  for (const std::size_t sample : order) {
    if (groups_.empty() || !joins(length_of(sample), groups_.back().length, mask_))
      groups_.push_back({.samples = 0, .length = length_of(sample)});
    ++groups_.back().samples;
    for (std::int64_t i = 0; i < groups_.back().length; ++i) {
      const auto row = static_cast<std::int64_t>(token_of_row.size());
      const bool is_real = i < length_of(sample);
      const std::int64_t token = is_real ? cu_seqlens[sample] + i : 0;
      if (is_real) row_of_token[static_cast<std::size_t>(token)] = row;
      if (!is_real) padding.push_back(row);
      moved = moved || !is_real || token != row;
      token_of_row.push_back(token);
    }
  }
  rows_ = static_cast<std::int64_t>(token_of_row.size());
  if (!moved) return;
  token_of_row_ = to_device(at::tensor(token_of_row, at::kLong), device);
  row_of_token_ = to_device(at::tensor(row_of_token, at::kLong), device);
  padding_rows_ = to_device(at::tensor(padding, at::kLong), device);
}

at::Tensor attend_packed(const at::Tensor& qkv, std::int64_t heads, std::int64_t kv_heads,
                         const SampleGroups& groups) {
  TRIB_CHECK(qkv.dim() == 3 && qkv.size(0) == groups.tokens() &&
                 qkv.size(1) == heads + 2 * kv_heads && heads % kv_heads == 0,
             .what = "ops: attention inputs do not fit each other",
             .found = tributary::str("qkv ", qkv.sizes(), ", ", heads, " heads, ", kv_heads,
                                     " kv_heads, ", groups.tokens(), " tokens in the samples"),
             .expected = "qkv [tokens, heads + 2 * kv_heads, head_width]");
  if (groups.tokens() == 0) return qkv.narrow(1, 0, heads);
  if (qkv.is_cuda()) return attend_by_boundaries(qkv, heads, kv_heads, groups);
  const at::Tensor source = qkv.contiguous();
  const at::Tensor rows =
      groups.in_place() ? source
                        : TokensToRows::apply(source, groups.token_of_row(), groups.row_of_token());

  std::vector<std::int64_t> sizes;
  for (const SampleGroups::Group& group : groups.groups())
    sizes.push_back(group.samples * group.length);
  const std::vector<at::Tensor> parts = rows.split_with_sizes(sizes, 0);
  std::vector<at::Tensor> results;
  for (std::size_t i = 0; i < parts.size(); ++i)
    results.push_back(attend_group(parts[i], groups.groups()[i], heads, kv_heads, groups.mask()));
  const at::Tensor joined = results.size() == 1 ? results[0] : at::cat(results, 0);
  if (groups.in_place()) return joined;
  return RowsToTokens::apply(joined, groups.token_of_row(), groups.row_of_token(),
                             groups.padding_rows());
}

}  // namespace tributary::ops
