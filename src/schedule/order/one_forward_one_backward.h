#pragma once

#include "schedule/order/order_shape.h"

namespace tributary::schedule {

/// Lists warm-up forwards, then forward and backward in turn, then the remaining backwards.
///
/// shape:  2 * microbatches passes for each stage
/// cost:   min(stages - stage, microbatches) activations in flight
/// source: Narayanan 2021, "Memory-efficient pipeline-parallel DNN training" (PipeDream-Flush)
[[nodiscard]] StageLists list_1f1b(const OrderShape& shape);

}  // namespace tributary::schedule
