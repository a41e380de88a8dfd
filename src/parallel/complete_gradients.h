#pragma once

#include <memory>
#include <span>

#include "parallel/unit.h"

namespace tributary::parallel {

/// Completes the shards' gradients after the backward of all microbatches, so that they are those
/// of the global batch: waits for the sums over shard and dp_replicate, which the last backwards
/// began (UnitChain::begin_last_backward), and adds over tp where the ranks of a replicated
/// parameter saw different tokens or heads.
///
/// collective: over shard, dp_replicate and tp
void complete_gradients(std::span<const std::unique_ptr<Unit>> units);

}  // namespace tributary::parallel
