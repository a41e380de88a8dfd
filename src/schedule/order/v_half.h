#pragma once

#include "schedule/order/order_shape.h"

namespace tributary::schedule {

/// Lists a V of two chunks on each stage that keeps about half the activations of 1F1B; best where
/// F = B = W.
///
/// shape:  chunks = 2; 6 * microbatches passes for each stage
/// cost:   O(stages * microbatches^3) time; at most 2 * (stages / 2 + 1) chunk activations in
///         flight
/// source: Qi 2024, "Pipeline parallelism with controllable memory" (arXiv:2405.15362), V-Half; the
///         published pattern is compacted here, which takes the waits out of its ramps
[[nodiscard]] StageLists list_v_half(const OrderShape& shape);

/// The same with about a third of the activations, at most 2 * ((stages + 1) / 3 + 1); slow
/// wherever F, B and W differ.
[[nodiscard]] StageLists list_v_min(const OrderShape& shape);

}  // namespace tributary::schedule
