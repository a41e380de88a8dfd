#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "config/trace/trace.h"
#include "cost/cost_source.h"

namespace tributary::cost {

/// The costs of another source; it records look-ups beyond the measured sizes.
///
/// owns: the source, shared with others; thread-safe
class WatchedCosts final : public CostSource {
 public:
  explicit WatchedCosts(std::shared_ptr<const CostSource> source) : source_(std::move(source)) {}

  /// One entry for each table, ascending by name, with the largest size asked for.
  [[nodiscard]] std::vector<config::BeyondGrid> beyond_grid() const;

  [[nodiscard]] LayerCost layer(const std::string& module, const config::LayerShape& shape,
                                const PassShape& pass, const LayerPlacement& placement,
                                Training training) const override;
  [[nodiscard]] Nanoseconds collective(config::CollectiveOp op, const CommunicationGroup& group,
                                       Bytes bytes) const override;

  [[nodiscard]] Nanoseconds optimizer(double parameters) const override {
    return source_->optimizer(parameters);
  }
  [[nodiscard]] Nanoseconds microbatch(bool has_loss) const override {
    return source_->microbatch(has_loss);
  }
  [[nodiscard]] Nanoseconds step(const CommunicationGroup& ranks) const override {
    return source_->step(ranks);
  }
  [[nodiscard]] Bytes process() const override { return source_->process(); }
  [[nodiscard]] double value_bytes() const override { return source_->value_bytes(); }
  [[nodiscard]] double overlap_slowdown() const override { return source_->overlap_slowdown(); }
  [[nodiscard]] bool has_layer(const std::string& module, const config::LayerShape& shape,
                               std::int64_t tp) const override {
    return source_->has_layer(module, shape, tp);
  }
  [[nodiscard]] bool has_collective(config::CollectiveOp op, std::int64_t ranks) const override {
    return source_->has_collective(op, ranks);
  }
  [[nodiscard]] std::int64_t measured_tokens(const std::string& module,
                                             const config::LayerShape& shape,
                                             std::int64_t tp) const override {
    return source_->measured_tokens(module, shape, tp);
  }
  [[nodiscard]] double measured_attended(const std::string& module, const config::LayerShape& shape,
                                         std::int64_t tp) const override {
    return source_->measured_attended(module, shape, tp);
  }
  [[nodiscard]] std::int64_t measured_bytes(config::CollectiveOp op,
                                            std::int64_t ranks) const override {
    return source_->measured_bytes(op, ranks);
  }
  [[nodiscard]] std::string degrees() const override { return source_->degrees(); }
  [[nodiscard]] std::shared_ptr<const CostSource> convex() const override {
    return source_->convex();
  }

 private:
  void note(const std::string& table, const std::string& unit, std::int64_t measured,
            double asked) const;

  std::shared_ptr<const CostSource> source_;
  mutable std::mutex guard_;
  mutable std::map<std::string, config::BeyondGrid> beyond_;
};

/// One line of text: each table with the sizes asked for and measured.
[[nodiscard]] std::string describe(const std::vector<config::BeyondGrid>& beyond);

}  // namespace tributary::cost
