#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include <ATen/core/Tensor.h>

#include "ops/attend_packed.h"
#include "parallel/sequence/head_exchange.h"
#include "parallel/sequence/ring_attention.h"
#include "parallel/sequence/token_split.h"

namespace tributary::parallel {

/// Causal attention inside each sample of a pack, wherever its tokens lie: heads are exchanged over
/// ulysses, keys and values pass around cp. On one rank it is ops::attend_packed. Made once for a
/// pack, used by every layer.
class PackAttention {
 public:
  PackAttention(const TokenSplit& split, const Layout& layout, at::Device device);

  /// shape: qkv [tokens kept, heads + 2 * kv_heads, head_width] -> returns [tokens kept, heads,
  ///        head_width]
  /// collective: over ulysses and cp
  [[nodiscard]] at::Tensor operator()(const at::Tensor& qkv, std::int64_t heads,
                                      std::int64_t kv_heads) const;

  /// Whether queries, keys and values should each travel as soon as they are known: three times
  /// start(), then attend().
  [[nodiscard]] bool exchanges_early() const { return exchanges_early_; }
  /// shape: x [tokens kept, heads or kv_heads, head_width]
  [[nodiscard]] Travelling start(const at::Tensor& x) const;
  /// collective: over ulysses and cp
  [[nodiscard]] at::Tensor attend(const Travelling& queries, const Travelling& keys,
                                  const Travelling& values) const;

 private:
  [[nodiscard]] at::Tensor attend_row(const at::Tensor& qkv, std::int64_t heads,
                                      std::int64_t kv_heads) const;

  std::shared_ptr<const UnitChain> chain_;
  const mesh::Group* ulysses_;
  const mesh::Group* ring_;
  bool exchanges_heads_;
  bool exchanges_early_;
  std::optional<ops::SampleGroups> groups_;  // of the row, where no ring is
  std::shared_ptr<const RingPlan> plan_;
};

}  // namespace tributary::parallel
