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
  /// Of so many parameters, by the rank that has their state.
  [[nodiscard]] virtual Nanoseconds optimizer(double parameters) const = 0;
  /// Host time of one microbatch that nothing hides, on a stage with or without the loss.
  [[nodiscard]] virtual Nanoseconds microbatch(bool has_loss) const = 0;
  /// What else every rank does once in a step, where these are all ranks of the plan: they add up
  /// the squares of their gradients' norm, and more where that was measured.
  [[nodiscard]] virtual Nanoseconds step(const CommunicationGroup& ranks) const = 0;
  /// The least of it, whatever the plan.
  [[nodiscard]] Nanoseconds least_step() const { return step({}); }
  /// What a process holds beside tensors.
  [[nodiscard]] virtual Bytes process() const = 0;
  /// Of one parameter, gradient or activation value.
  [[nodiscard]] virtual double value_bytes() const = 0;
  /// How much longer compute takes while a collective travels; infinite where the same cores do
  /// both.
  [[nodiscard]] virtual double overlap_slowdown() const = 0;

  /// Whether such layers under so many tp ranks, or such collectives of so many ranks, have costs.
  [[nodiscard]] virtual bool has_layer(const std::string& /*module*/,
                                       const config::LayerShape& /*shape*/,
                                       std::int64_t /*tp*/) const {
    return true;
  }
  [[nodiscard]] virtual bool has_collective(config::CollectiveOp /*op*/,
                                            std::int64_t /*ranks*/) const {
    return true;
  }
  /// Sizes up to which they were measured, tokens or patches and bytes: above them costs go on at
  /// the rate of the largest. Without end where costs are formulas.
  [[nodiscard]] virtual std::int64_t measured_tokens(const std::string& /*module*/,
                                                     const config::LayerShape& /*shape*/,
                                                     std::int64_t /*tp*/) const {
    return std::numeric_limits<std::int64_t>::max();
  }
  [[nodiscard]] virtual std::int64_t measured_bytes(config::CollectiveOp /*op*/,
                                                    std::int64_t /*ranks*/) const {
    return std::numeric_limits<std::int64_t>::max();
  }
  /// All degrees that have costs, in words; empty: any.
  [[nodiscard]] virtual std::string degrees() const { return ""; }
  /// Costs that are nowhere above these, and convex in the size of a pass from nothing at none: for
  /// bounds. None where these are so already.
  [[nodiscard]] virtual std::shared_ptr<const CostSource> convex() const { return nullptr; }
};

/// Rooflines on a cluster's device, and the closed forms of its links.
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
