#pragma once

#include <memory>
#include <span>

#include "parallel/unit.h"

namespace tributary::parallel {

/// Makes the shards' gradients those of the global batch after the backward of all microbatches:
/// waits for the sums over shard and dp_replicate, which the last backwards have begun
/// (UnitChain::begin_last_backward), and adds over tp where the ranks of a replicated parameter saw
/// different tokens or heads.
///
/// collective: over shard, dp_replicate and tp
void complete_gradients(std::span<const std::unique_ptr<Unit>> units);

}  // namespace tributary::parallel
