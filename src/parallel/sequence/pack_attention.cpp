#include "parallel/sequence/pack_attention.h"

#include <ATen/ATen.h>

#include "parallel/observe_attention.h"
#include "parallel/unit_chain.h"

namespace tributary::parallel {

PackAttention::PackAttention(const TokenSplit& split, const Layout& layout, at::Device device)
    : chain_(layout.chain),
      ulysses_(&layout.mesh->ulysses()),
      ring_(&layout.mesh->cp()),
      exchanges_heads_(layout.splits_sequence() && !ulysses_->is_single()),
      exchanges_early_(exchanges_heads_ && layout.chain && layout.chain->options().ulysses_async) {
  if (split.ring_ranks() > 1) {
    plan_ = std::make_shared<const RingPlan>(split, device);
  } else {
    groups_.emplace(split.row_boundaries(), ops::Mask::kCausal, device);
  }
}

at::Tensor PackAttention::attend_row(const at::Tensor& qkv, std::int64_t heads,
                                     std::int64_t kv_heads) const {
  return observe_attention(chain_.get(), qkv, [&](const at::Tensor& row) {
    return plan_ ? attend_ring(row, heads, kv_heads, plan_, *ring_)
                 : ops::attend_packed(row, heads, kv_heads, *groups_);
  });
}

at::Tensor PackAttention::operator()(const at::Tensor& qkv, std::int64_t heads,
                                     std::int64_t kv_heads) const {
  if (!exchanges_heads_) return attend_row(qkv, heads, kv_heads);
  const std::int64_t ranks = ulysses_->size();
  std::vector<at::Tensor> by_rank;
  for (const at::Tensor& part : qkv.split_with_sizes({heads, kv_heads, kv_heads}, 1))
    by_rank.push_back(heads_by_rank(part, ranks));
  const at::Tensor row = start_to_heads(at::cat(by_rank, 2), *ulysses_).arrive();
  return to_tokens(attend_row(row, by_rank[0].size(2), by_rank[1].size(2)), *ulysses_);
}

Travelling PackAttention::start(const at::Tensor& x) const {
  return start_to_heads(heads_by_rank(x, ulysses_->size()), *ulysses_);
}

at::Tensor PackAttention::attend(const Travelling& queries, const Travelling& keys,
                                 const Travelling& values) const {
  const at::Tensor q = queries.arrive();
  const at::Tensor k = keys.arrive();
  const at::Tensor row = at::cat({q, k, values.arrive()}, 1);
  return to_tokens(attend_row(row, q.size(1), k.size(1)), *ulysses_);
}

}  // namespace tributary::parallel
