#pragma once

#include "schedule/order/order_shape.h"

namespace tributary::schedule {

/// Lists a V of two chunks on each stage with the backward split: forwards go down and up again,
/// and weight gradients fill the waits. Assumes that all stages have the mean times of the shape.
///
/// shape:  chunks = 2; 6 * microbatches passes for each stage
/// cost:   2 * stages chunk activations in flight; no bubble except the first descent where F = B =
///         W and microbatches >= 2 * stages
/// source: Qi 2024, "Pipeline parallelism with controllable memory" (arXiv:2405.15362), ZB-V;
///         an activation counts until its weight gradient
[[nodiscard]] StageLists list_zb_v(const OrderShape& shape);

}  // namespace tributary::schedule
