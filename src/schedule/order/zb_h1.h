#pragma once

#include "schedule/order/order_shape.h"

namespace tributary::schedule {

/// Lists 1F1B with the backward split: weight gradients wait and fill the bubble at the end.
///
/// shape:  3 * microbatches passes for each stage
/// cost:   bubble (stages - 1) * (F + B - W); min(stages, microbatches) activations in flight
/// source: Qi 2023, "Zero bubble pipeline parallelism" (arXiv:2401.10241), ZB-H1
[[nodiscard]] StageLists list_zb_h1(const OrderShape& shape);

}  // namespace tributary::schedule
