#pragma once

#include "schedule/order/order_shape.h"

namespace tributary::schedule {

/// Lists all forwards, then all backwards, both in data order.
///
/// shape:  2 * microbatches passes for each stage
/// cost:   microbatches activations in flight
/// source: Huang 2019, "GPipe"; backwards ascend here, so that weight gradients add up in the order
///         of every other schedule
[[nodiscard]] StageLists list_gpipe(const OrderShape& shape);

}  // namespace tributary::schedule
