#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>

#include "mesh/transport/group.h"
#include "ops/attend_packed.h"
#include "parallel/sequence/token_split.h"

namespace tributary::parallel {

/// Which rows of this rank's queries meet which rows of each ring rank's keys: made once for a
/// pack, used by every layer.
///
/// Within a sample, this rank's queries meet its own keys under the causal mask. All of them meet
/// the front piece of a rank before this one; only the back piece meets the keys of a rank after
/// it.
class RingPlan {
 public:
  /// Samples whose blocks have the same size, in one call.
  struct Call {
    std::int64_t samples = 0;
    std::int64_t queries = 0;  // of each sample
    std::int64_t keys = 0;
    ops::Mask mask = ops::Mask::kNone;
    at::Tensor query_rows;  // [samples * queries] i64, of this rank's row
    at::Tensor key_rows;    // [samples * keys] i64, of the other rank's row
  };

  RingPlan(const TokenSplit& split, at::Device device);
  [[nodiscard]] const std::vector<Call>& calls(std::int64_t ring_rank) const {
    return calls_[static_cast<std::size_t>(ring_rank)];
  }
  [[nodiscard]] std::int64_t rows(std::int64_t ring_rank) const {
    return rows_[static_cast<std::size_t>(ring_rank)];
  }

 private:
  std::vector<std::vector<Call>> calls_;  // [ring rank]
  std::vector<std::int64_t> rows_;        // [ring rank]
};

/// Causal attention inside each sample, whose tokens lie on the ranks of a ring: keys and values
/// pass around it while queries stay, the next block travelling while one is computed.
///
/// shape:  qkv [rows of this rank, heads + 2 * kv_heads, head_width] -> returns [rows, heads,
///         head_width]
/// dtype:  partial results are joined, and gradients of keys and values added, in f32
/// owns:   `plan` is kept until backward has passed
/// collective: over `ring`, forward and backward
/// cost:   2 * kv_heads * head_width elements a token pass each link, size - 1 times forward; in
///         backward as many again, and their gradients in f32 size times
/// source: docs/theory/parallelism.md, "Ring attention"
[[nodiscard]] at::Tensor attend_ring(const at::Tensor& qkv, std::int64_t heads,
                                     std::int64_t kv_heads, std::shared_ptr<const RingPlan> plan,
                                     const mesh::Group& ring);

}  // namespace tributary::parallel
