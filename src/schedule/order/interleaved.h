#pragma once

#include "schedule/order/order_shape.h"

namespace tributary::schedule {

/// Lists 1F1B with several chunks on a stage: groups of microbatches go through all chunks in turn.
///
/// shape:  2 * microbatches * chunks passes for each stage
/// cost:   bubble of 1F1B / chunks; min(2 * (stages - 1 - stage) + (chunks - 1) * group + 1 +
///         extra_warm_up, microbatches * chunks) chunk activations in flight
/// source: Narayanan 2021, "Efficient large-scale language model training on GPU clusters"
[[nodiscard]] StageLists list_interleaved(const OrderShape& shape);

/// Chunk forwards of a stage before its first backward.
[[nodiscard]] int interleaved_warm_up(const OrderShape& shape, int stage);

}  // namespace tributary::schedule
