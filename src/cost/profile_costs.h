#pragma once

#include <limits>
#include <string>

#include "config/artifact/profile.h"
#include "cost/cost_source.h"

namespace tributary::cost {

/// Measured layers, collectives and steps, for a plan with the same number of ranks on the
/// profile's machine. On a CPU each rank computes with `threads` threads; 0: an equal part of the
/// cores, at least one.
///
/// errors: every look-up throws Fault::kInput naming the table that the profile lacks
/// source: docs/theory/planning.md, "Measured tables"
class ProfileCosts final : public CostSource {
 public:
  ProfileCosts(config::Profile profile, std::int64_t ranks, std::int64_t threads,
               std::string where);

  [[nodiscard]] LayerCost layer(const std::string& module, const config::LayerShape& shape,
                                const PassShape& pass, const LayerPlacement& placement,
                                Training training) const override;
  [[nodiscard]] Nanoseconds collective(config::CollectiveOp op, const CommunicationGroup& group,
                                       Bytes bytes) const override;
  [[nodiscard]] Nanoseconds optimizer(double parameters) const override;
  [[nodiscard]] Nanoseconds microbatch(bool has_loss) const override;
  [[nodiscard]] Nanoseconds step(const CommunicationGroup& ranks) const override;
  [[nodiscard]] Bytes process() const override;
  [[nodiscard]] double value_bytes() const override;
  [[nodiscard]] double overlap_slowdown() const override {
    return profile_.cores == 0 ? 1 : std::numeric_limits<double>::infinity();
  }

  [[nodiscard]] bool has_layer(const std::string& module, const config::LayerShape& shape,
                               std::int64_t tp) const override;
  [[nodiscard]] bool has_collective(config::CollectiveOp op, std::int64_t ranks) const override;
  [[nodiscard]] std::int64_t measured_tokens(const std::string& module,
                                             const config::LayerShape& shape,
                                             std::int64_t tp) const override;
  [[nodiscard]] double measured_attended(const std::string& module, const config::LayerShape& shape,
                                         std::int64_t tp) const override;
  [[nodiscard]] std::int64_t measured_bytes(config::CollectiveOp op,
                                            std::int64_t ranks) const override;
  [[nodiscard]] std::string degrees() const override;
  [[nodiscard]] std::shared_ptr<const CostSource> convex() const override;

  /// Compute threads of each rank.
  [[nodiscard]] std::int64_t threads() const { return threads_; }

 private:
  /// Whether a measurement with `ranks` ranks is the better one for the plan: those with no more
  /// ranks than the plan come first, then the nearest.
  [[nodiscard]] bool is_nearer(std::int64_t ranks, std::int64_t other) const;
  [[nodiscard]] const config::ProfileTable* find_table(const std::string& module,
                                                       const std::string& layer,
                                                       std::int64_t tp) const;
  [[nodiscard]] const config::ProfileTable& table(const std::string& module,
                                                  const std::string& layer, std::int64_t tp) const;
  [[nodiscard]] const config::MeasuredStep& measured_step() const;

  config::Profile profile_;
  std::string where_;
  std::int64_t ranks_;
  std::int64_t threads_;
};

/// The name of a layer in the tables of a profile: window_block.
[[nodiscard]] std::string layer_name(const config::LayerShape& shape);

/// The name of a collective in a profile: all_reduce.
[[nodiscard]] std::string collective_name(config::CollectiveOp op);

/// The profile's machine as a cluster of `ranks` ranks: one level of links from its measured
/// messages, its fastest product, its cores, and an equal part of its memory for each rank.
///
/// errors: Fault::kInput for several ranks when no messages were measured
[[nodiscard]] config::Cluster cluster_of(const config::Profile& profile, std::int64_t ranks,
                                         const std::string& where);

}  // namespace tributary::cost
