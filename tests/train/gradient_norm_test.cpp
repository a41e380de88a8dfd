#include "train/optimizer/gradient_norm.h"

#include <cmath>
#include <gtest/gtest.h>
#include <limits>
#include <map>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "core/random.h"

namespace tributary::train {
namespace {

using Units = std::vector<std::unique_ptr<parallel::Unit>>;

/// Units whose gradients are drawn from a seed: one shorter than a row, one longer than two, in
/// modules of their own.
Units make_norm_units() {
  Units units;
  for (const std::int64_t elements : {100, 9000}) {
    units.push_back(
        std::make_unique<parallel::Unit>(elements == 100 ? "vision" : "backbone", "unit"));
    units.back()->declare("weight", {elements}, {});
    units.back()->materialize(at::kCPU, at::kFloat, /*trainable=*/true);
    RandomStream random(7, "gradient", static_cast<std::uint64_t>(elements));
    auto* values = units.back()->shard_gradient().data_ptr<float>();
    for (std::int64_t i = 0; i < elements; ++i) values[i] = static_cast<float>(random.normal());
  }
  return units;
}

TEST(SquareGradients, AddsAllUnitsOfEachModule) {
  Units units = make_norm_units();
  units.push_back(std::make_unique<parallel::Unit>("projector", "frozen"));
  units.back()->declare("weight", {5}, {});
  units.back()->materialize(at::kCPU, at::kFloat, /*trainable=*/false);
  units.push_back(std::move(make_norm_units().front()));  // vision again
  EXPECT_EQ(trained_modules(units), (std::vector<std::string>{"vision", "backbone"}));
  std::map<std::string, double> expected;
  for (const auto& unit : units) {
    if (!unit->trainable()) continue;
    const at::Tensor& flat = unit->shard_gradient();
    for (std::int64_t i = 0; i < flat.numel(); ++i)
      expected[unit->module()] += std::pow(flat.const_data_ptr<float>()[i], 2.0);
  }
  const ModuleSquares squares = square_gradients(units);
  EXPECT_NEAR(squares.all / (expected["vision"] + expected["backbone"]), 1, 1e-6);
  ASSERT_EQ(squares.by_module.size(), 2u);
  EXPECT_NEAR(squares.by_module[0] / expected["vision"], 1, 1e-6);
  EXPECT_NEAR(squares.by_module[1] / expected["backbone"], 1, 1e-6);
}

TEST(SquareGradients, DependsOnNoThreadCount) {
  const Units units = make_norm_units();
  at::set_num_threads(1);
  const double one = square_gradients(units).all;
  at::set_num_threads(2);
  EXPECT_EQ(square_gradients(units).all, one);
  at::set_num_threads(1);
}

TEST(SquareGradients, KeepsNanAndInfinity) {
  const Units units = make_norm_units();
  units[1]->shard_gradient()[8999] = std::numeric_limits<float>::infinity();
  EXPECT_TRUE(std::isinf(square_gradients(units).all));
  units[0]->shard_gradient()[3] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(std::isnan(square_gradients(units).all));
}

TEST(ClipFactor, BringsALargerNormToTheLimit) {
  EXPECT_DOUBLE_EQ(clip_factor(4, 1), 0.25);
  EXPECT_DOUBLE_EQ(clip_factor(0.5, 1), 1);
  EXPECT_DOUBLE_EQ(clip_factor(100, 0), 1);
}

}  // namespace
}  // namespace tributary::train
