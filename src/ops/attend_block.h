#pragma once

#include <ATen/core/Tensor.h>

#include "ops/attend_packed.h"

namespace tributary::ops {

/// Attention over a part of the keys. Parts are joined by their log-sums, so that a rank can attend
/// to keys which arrive one block after the other.
struct BlockResult {
  at::Tensor out;      // [batch, heads, queries, head_width]
  at::Tensor log_sum;  // [batch, heads, queries] f32: logarithm of the sum of exponentials
};

/// shape:  queries [batch, heads, queries, head_width], keys and values [batch, kv_heads, keys,
///         head_width]; with the causal mask as many keys as queries
/// dtype:  any float; softmax and sums in f32
/// cost:   no gradient of its own: attend_block_backward
/// source: Dao 2023, "FlashAttention-2" (arXiv:2307.08691), in libtorch's kernels
[[nodiscard]] BlockResult attend_block(const at::Tensor& queries, const at::Tensor& keys,
                                       const at::Tensor& values, Mask mask);

struct BlockGradients {
  at::Tensor queries;
  at::Tensor keys;
  at::Tensor values;
};

/// The gradients that one block contributes, given the result over all blocks.
///
/// shape: gradient, queries, all.out alike; keys and values as in attend_block
[[nodiscard]] BlockGradients attend_block_backward(const at::Tensor& gradient,
                                                   const at::Tensor& queries,
                                                   const at::Tensor& keys, const at::Tensor& values,
                                                   const BlockResult& all, Mask mask);

/// The result over the keys of both. source: docs/theory/parallelism.md, "Ring attention"
[[nodiscard]] BlockResult join_blocks(const BlockResult& a, const BlockResult& b);

}  // namespace tributary::ops
