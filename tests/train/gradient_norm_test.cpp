#include "train/optimizer/gradient_norm.h"

#include <cmath>
#include <gtest/gtest.h>
#include <limits>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "core/random.h"

namespace tributary::train {
namespace {

using Units = std::vector<std::unique_ptr<parallel::Unit>>;

/// Units whose gradients are drawn from a seed: one shorter than a row, one longer than two.
Units make_norm_units() {
  Units units;
  for (const std::int64_t elements : {100, 9000}) {
    units.push_back(std::make_unique<parallel::Unit>("backbone", "unit"));
    units.back()->declare("weight", {elements}, {});
    units.back()->materialize(at::kCPU, at::kFloat, /*trainable=*/true);
    RandomStream random(7, "gradient", static_cast<std::uint64_t>(elements));
    auto* values = units.back()->shard_gradient().data_ptr<float>();
    for (std::int64_t i = 0; i < elements; ++i) values[i] = static_cast<float>(random.normal());
  }
  return units;
}

TEST(SumSquaredGradients, AddsAllUnits) {
  const Units units = make_norm_units();
  double expected = 0;
  for (const auto& unit : units) {
    const at::Tensor& flat = unit->shard_gradient();
    for (std::int64_t i = 0; i < flat.numel(); ++i)
      expected += std::pow(flat.const_data_ptr<float>()[i], 2.0);
  }
  EXPECT_NEAR(sum_squared_gradients(units) / expected, 1, 1e-6);
}

TEST(SumSquaredGradients, DependsOnNoThreadCount) {
  const Units units = make_norm_units();
  at::set_num_threads(1);
  const double one = sum_squared_gradients(units);
  at::set_num_threads(2);
  EXPECT_EQ(sum_squared_gradients(units), one);
  at::set_num_threads(1);
}

TEST(SumSquaredGradients, KeepsNanAndInfinity) {
  const Units units = make_norm_units();
  units[1]->shard_gradient()[8999] = std::numeric_limits<float>::infinity();
  EXPECT_TRUE(std::isinf(sum_squared_gradients(units)));
  units[0]->shard_gradient()[3] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(std::isnan(sum_squared_gradients(units)));
}

TEST(ClipFactor, BringsALargerNormToTheLimit) {
  EXPECT_DOUBLE_EQ(clip_factor(4, 1), 0.25);
  EXPECT_DOUBLE_EQ(clip_factor(0.5, 1), 1);
  EXPECT_DOUBLE_EQ(clip_factor(100, 0), 1);
}

}  // namespace
}  // namespace tributary::train
