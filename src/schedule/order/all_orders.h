#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "config/pipeline_order.h"
#include "core/result.h"
#include "schedule/order/order_shape.h"

namespace tributary::schedule {

/// What one order needs and promises.
struct OrderTraits {
  config::PipelineOrder order;
  std::string_view name;  // as in plans
  Fold fold;
  int chunks;            // on a stage; 0: two or more
  bool splits_backward;  // B and W are separate actions
  StageLists (*list)(const OrderShape&);
  /// Max chunk activations that the stage ever keeps.
  int (*in_flight)(const OrderShape&, int stage);
};

[[nodiscard]] std::span<const OrderTraits> all_orders();

/// errors: Fault::kBug when the order is not in the list
[[nodiscard]] const OrderTraits& traits_of(config::PipelineOrder order);

/// Why an order cannot be made for a shape; null when it can. Reasons: an empty pipeline, a wrong
/// number of chunks or times, microbatches that do not fill the groups of the interleaved order.
[[nodiscard]] std::optional<Refusal> refuse_order(config::PipelineOrder order,
                                                  const OrderShape& shape);

/// Lists the passes of every stage.
///
/// errors: Refusal as refuse_order
[[nodiscard]] Result<StageLists> list_passes(config::PipelineOrder order, const OrderShape& shape);

}  // namespace tributary::schedule
