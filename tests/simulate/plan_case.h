#pragma once

#include "simulate/simulate.h"
#include "tests/cost/small_plans.h"

namespace tributary::simulate {

using cost::small_cluster;
using cost::text_plan;
using cost::vision_plan;

/// Costs in proportion to tokens and patches, the same on every stage.
class TableCosts final : public cost::StageCosts {
 public:
  explicit TableCosts(bool has_encoder) : has_encoder_(has_encoder) {}
  [[nodiscard]] cost::StageCost cost(int module, int,
                                     const cost::MicrobatchShape& shape) const override {
    const bool is_encoder = has_encoder_ && module == 1;
    const double size = size_of(module, shape);
    const auto times = [size](double each) {
      return Nanoseconds{static_cast<std::int64_t>(each * size)};
    };
    cost::StageCost cost{.forward = times(10),
                         .input_gradient = times(is_encoder ? 0 : 12),
                         .weight_gradient = times(is_encoder ? 0 : 8),
                         .forward_exposed = times(1),
                         .gradient_exposed = times(is_encoder ? 0 : 2)};
    cost.kept = {static_cast<std::int64_t>(100 * size)};
    cost.boundary = {static_cast<std::int64_t>(64 * size)};
    return cost;
  }
  [[nodiscard]] cost::StageFlops flops(int module, int,
                                       const cost::MicrobatchShape& shape) const override {
    return {.all = {.causal = 1e6 * size_of(module, shape)}};
  }
  [[nodiscard]] cost::StageState state(int, int) const override {
    return {.parameters = {1 << 20},
            .gradients = {1 << 20},
            .optimizer = {6 << 20},
            .gathered = {},
            .reduction = {50'000},
            .optimizer_step = {20'000}};
  }

 private:
  [[nodiscard]] double size_of(int module, const cost::MicrobatchShape& shape) const {
    return has_encoder_ && module == 1 ? shape.encoder.tokens : shape.backbone.tokens;
  }
  bool has_encoder_;
};

/// The bucket of each sample where they are dealt in turns.
inline std::vector<std::int32_t> in_turns(std::size_t samples, std::size_t buckets) {
  std::vector<std::int32_t> bucket_of;
  for (std::size_t i = 0; i < samples; ++i)
    bucket_of.push_back(static_cast<std::int32_t>(i % buckets));
  return bucket_of;
}

}  // namespace tributary::simulate
