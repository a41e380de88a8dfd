#pragma once

#include <limits>
#include <string>

#include "config/artifact/profile.h"
#include "cost/cost_source.h"

namespace tributary::cost {

/// Measured layers, collectives and steps, of as many ranks on the profile's machine as the plan
/// has. On a CPU each computes with `threads`; 0: an equal part of the cores, and at least one.
///
/// errors: of every look-up Fault::kInput naming the table that the profile lacks
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
  [[nodiscard]] std::int64_t measured_bytes(config::CollectiveOp op,
                                            std::int64_t ranks) const override;
  [[nodiscard]] std::string degrees() const override;
  [[nodiscard]] std::shared_ptr<const CostSource> convex() const override;

  /// Compute threads of each rank.
  [[nodiscard]] std::int64_t threads() const { return threads_; }

 private:
  /// Whether so many ranks at work are nearer to those of the plan; rather fewer than more.
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

/// As in a profile: all_reduce.
[[nodiscard]] std::string collective_name(config::CollectiveOp op);

/// The machine of a profile as a cluster of so many ranks: its measured messages as one level of
/// links, its fastest product, its cores and an equal part of its memory for each rank.
///
/// errors: Fault::kInput when no messages were measured and there are more ranks than one
[[nodiscard]] config::Cluster cluster_of(const config::Profile& profile, std::int64_t ranks,
                                         const std::string& where);

}  // namespace tributary::cost
