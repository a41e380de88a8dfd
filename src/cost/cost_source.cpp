#include "cost/cost_source.h"

#include <cmath>

namespace tributary::cost {

LayerCost ClusterCosts::layer(const std::string& /*module*/, const config::LayerShape& shape,
                              const PassShape& pass, const LayerPlacement& placement,
                              Training training) const {
  return layer_cost(cluster_.device, shape, pass, placement, training);
}

Nanoseconds ClusterCosts::collective(config::CollectiveOp op, const CommunicationGroup& group,
                                     Bytes bytes) const {
  if (group.ranks <= 1 || bytes.count == 0) return {};
  return collective_cost(cluster_, op, group, bytes).time;
}

Nanoseconds ClusterCosts::optimizer(double parameters) const {
  return optimizer_time(cluster_.device, parameters);
}

/// The host waits for the loss, as in calibrate.
Nanoseconds ClusterCosts::microbatch(bool has_loss) const {
  return {has_loss ? std::llround(1e9 * cluster_.device.microbatch_s) : 0};
}

/// An all-reduce of one float32 value.
Nanoseconds ClusterCosts::step(const CommunicationGroup& ranks) const {
  return collective(config::CollectiveOp::kAllReduce, ranks, {4});
}

}  // namespace tributary::cost
