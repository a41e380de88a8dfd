#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <string>

#include "config/artifact/cluster.h"
#include "cost/collective_cost.h"
#include "cost/layer_cost.h"

namespace tributary::cost {

/// Where the times and bytes of a step come from: constants of a cluster, or a measured profile.
class CostSource {
 public:
  virtual ~CostSource() = default;

  /// One layer of a module on one rank, in one pass, without collectives.
  [[nodiscard]] virtual LayerCost layer(const std::string& module, const config::LayerShape& shape,
                                        const PassShape& pass, const LayerPlacement& placement,
                                        Training training) const = 0;
  /// `bytes` is the full buffer.
  [[nodiscard]] virtual Nanoseconds collective(config::CollectiveOp op,
                                               const CommunicationGroup& group,
                                               Bytes bytes) const = 0;
  /// Time to update `parameters` parameters on the rank that has their state.
  [[nodiscard]] virtual Nanoseconds optimizer(double parameters) const = 0;
  /// Host time of one microbatch that nothing hides, on a stage with or without the loss.
  [[nodiscard]] virtual Nanoseconds microbatch(bool has_loss) const = 0;
  /// What every rank also does once a step; `ranks` are all ranks of the plan. They add up the
  /// squares of their gradients for the norm, and do more where more was measured.
  [[nodiscard]] virtual Nanoseconds step(const CommunicationGroup& ranks) const = 0;
  /// Lower bound on step(), whatever the plan.
  [[nodiscard]] Nanoseconds min_step() const { return step({}); }
  /// Bytes that a process holds besides tensors.
  [[nodiscard]] virtual Bytes process() const = 0;
  /// Bytes of one parameter, gradient or activation value.
  [[nodiscard]] virtual double value_bytes() const = 0;
  /// How much longer compute takes while a collective runs; infinite where both share cores.
  [[nodiscard]] virtual double overlap_slowdown() const = 0;

  /// Whether a layer with this many tp ranks has costs.
  [[nodiscard]] virtual bool has_layer(const std::string& /*module*/,
                                       const config::LayerShape& /*shape*/,
                                       std::int64_t /*tp*/) const {
    return true;
  }
  [[nodiscard]] virtual bool has_collective(config::CollectiveOp /*op*/,
                                            std::int64_t /*ranks*/) const {
    return true;
  }
  /// The max measured size, in tokens or patches, or in bytes: above it costs grow at the rate of
  /// the largest. Unlimited where costs are formulas.
  [[nodiscard]] virtual std::int64_t measured_tokens(const std::string& /*module*/,
                                                     const config::LayerShape& /*shape*/,
                                                     std::int64_t /*tp*/) const {
    return std::numeric_limits<std::int64_t>::max();
  }
  /// The most items that one attends with, of what was measured.
  [[nodiscard]] virtual double measured_attended(const std::string& /*module*/,
                                                 const config::LayerShape& /*shape*/,
                                                 std::int64_t /*tp*/) const {
    return std::numeric_limits<double>::infinity();
  }
  [[nodiscard]] virtual std::int64_t measured_bytes(config::CollectiveOp /*op*/,
                                                    std::int64_t /*ranks*/) const {
    return std::numeric_limits<std::int64_t>::max();
  }
  /// All degrees that have costs, in words; empty: any.
  [[nodiscard]] virtual std::string degrees() const { return ""; }
  /// Costs for bounds: nowhere above these, and convex in the size of a pass from 0 at size 0. Null
  /// where these are already so.
  [[nodiscard]] virtual std::shared_ptr<const CostSource> convex() const { return nullptr; }
};

/// Costs from a roofline of the cluster's device, and from closed forms of its links.
class ClusterCosts final : public CostSource {
 public:
  explicit ClusterCosts(config::Cluster cluster) : cluster_(std::move(cluster)) {}

  [[nodiscard]] LayerCost layer(const std::string& module, const config::LayerShape& shape,
                                const PassShape& pass, const LayerPlacement& placement,
                                Training training) const override;
  [[nodiscard]] Nanoseconds collective(config::CollectiveOp op, const CommunicationGroup& group,
                                       Bytes bytes) const override;
  [[nodiscard]] Nanoseconds optimizer(double parameters) const override;
  [[nodiscard]] Nanoseconds microbatch(bool has_loss) const override;
  [[nodiscard]] Nanoseconds step(const CommunicationGroup& ranks) const override;
  [[nodiscard]] Bytes process() const override { return {}; }
  [[nodiscard]] double value_bytes() const override { return 2; }
  [[nodiscard]] double overlap_slowdown() const override {
    return cluster_.device.overlap_slowdown;
  }

 private:
  config::Cluster cluster_;
};

}  // namespace tributary::cost
