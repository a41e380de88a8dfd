#pragma once

#include <cstdint>

#include "parallel/layout.h"
#include "parallel/parameter.h"

namespace tributary::parallel {

/// Cuts dimension 0 by heads over tp: each rank gets heads / tp of them; where heads are fewer than
/// ranks, tp / heads neighbours share one, and their gradients are added.
///
/// shape: dimension 0 is stacks * heads * head_width; several stacks are query, key and value in
///        one parameter
/// errors: Fault::kInput when neither divides the other
[[nodiscard]] Split split_heads(const Layout& layout, std::int64_t heads, std::int64_t head_width,
                                std::int64_t stacks = 1);
/// Cuts dimension `dim` of `size` entries evenly over tp, the last ranks padded with zeros.
[[nodiscard]] Split split_evenly(const Layout& layout, int dim, std::int64_t size);
/// Every tp rank holds the whole. `uses_part`: each sees a part of the tokens or heads.
[[nodiscard]] Split replicated(const Layout& layout, bool uses_part);

/// Heads that this rank holds of `heads`: at least one.
[[nodiscard]] std::int64_t local_heads(const Layout& layout, std::int64_t heads);

}  // namespace tributary::parallel
