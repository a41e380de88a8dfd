#include <cmath>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ATen/ATen.h>

#include "core/error.h"
#include "core/random.h"
#include "train/optimizer/adamw_8bit.h"
#include "train/optimizer/muon.h"
#include "train/optimizer/optimizer.h"

namespace tributary::train {
namespace {

using config::OptimizerKind;
using Units = std::vector<std::unique_ptr<parallel::Unit>>;

at::Tensor draw_normal(at::IntArrayRef shape, std::string_view purpose, int step = 0) {
  RandomStream random(3, purpose, static_cast<std::uint64_t>(step));
  at::Tensor values = at::empty(shape, at::kFloat);
  for (std::int64_t i = 0; i < values.numel(); ++i)
    values.data_ptr<float>()[i] = static_cast<float>(random.normal());
  return values;
}

/// A layer with a matrix of a linear map, one that is none, and a bias.
Units make_layer(at::ScalarType dtype = at::kFloat) {
  Units units;
  units.push_back(std::make_unique<parallel::Unit>("backbone", "backbone.layers.0"));
  units.back()->declare("map.weight", {96, 64}, {}).is_map = true;
  units.back()->declare("map.bias", {96}, {});
  units.back()->declare("table.weight", {70, 64}, {});
  units.back()->materialize(at::kCPU, dtype, /*trainable=*/true);
  const at::NoGradGuard no_grad;
  for (const auto& parameter : units.back()->parameters())
    parameter->value.copy_(draw_normal(parameter->shape, parameter->name));
  return units;
}

void take_update(Optimizer& optimizer, const Units& units, int number) {
  for (const auto& unit : units)
    for (const auto& parameter : unit->parameters())
      parameter->value.grad().copy_(draw_normal(parameter->shape, parameter->name, number));
  optimizer.step(0.01, 1);
}

std::vector<std::string> state_names(const Optimizer& optimizer) {
  std::vector<std::string> names;
  for (const NamedTensor& tensor : optimizer.state()) names.push_back(tensor.name);
  return names;
}

TEST(BlockQuantised, KeepsWhatItRead) {
  for (const bool is_signed : {true, false}) {
    at::Tensor values = draw_normal({1000}, "values");
    values *= at::pow(10, draw_normal({1000}, "sizes"));  // of very different sizes
    if (!is_signed) values = values.abs();
    BlockQuantised quantised(1000, is_signed, at::kCPU);
    EXPECT_EQ(quantised.read().abs().max().item<float>(), 0);
    quantised.write(values);
    const at::Tensor once = quantised.read();
    quantised.write(once);
    EXPECT_TRUE(at::equal(quantised.read(), once));
    for (std::int64_t first = 0; first < 1000; first += 256) {
      const std::int64_t count = std::min<std::int64_t>(256, 1000 - first);
      const at::Tensor block = values.narrow(0, first, count);
      const at::Tensor error = (once.narrow(0, first, count) - block).abs();
      const float largest = block.abs().max().item<float>();
      EXPECT_LT(error.max().item<float>(), 0.008 * largest);
      EXPECT_LT((error / (block.abs() + 1e-3 * largest)).max().item<float>(), 0.12);
    }
  }
}

TEST(BlockQuantised, NeverLosesASmallSecondMoment) {
  BlockQuantised quantised(2, /*is_signed=*/false, at::kCPU);
  quantised.write(at::tensor({1.0F, 1e-20F}));
  EXPECT_GT(quantised.read()[1].item<float>(), 0);
  quantised.write(at::tensor({1.0F, 0.0F}));
  EXPECT_EQ(quantised.read()[1].item<float>(), 0);
}

TEST(AdamW8bit, GoesAsAdamWDoes) {
  const Units wide = make_layer();
  const Units narrow = make_layer();
  Optimizer adamw(wide, {.groups = {}});
  Optimizer quantised(narrow, {.kind = OptimizerKind::kAdamW8bit, .groups = {}});
  const at::Tensor before = wide[0]->shard_value().clone();
  for (int number = 1; number <= 20; ++number) {
    take_update(adamw, wide, number);
    take_update(quantised, narrow, number);
  }
  const at::Tensor moved = wide[0]->shard_value() - before;
  const at::Tensor error = narrow[0]->shard_value() - wide[0]->shard_value();
  EXPECT_GT(error.norm().item<float>(), 0);
  EXPECT_LT((error.norm() / moved.norm()).item<float>(), 0.05);
  EXPECT_EQ(state_names(quantised), state_names(adamw)) << "checkpoints hold the moments in f32";
}

TEST(UpdateRules, ContinueBitEqualFromTheirState) {
  for (const OptimizerKind kind : {OptimizerKind::kMuon, OptimizerKind::kAdamW8bit}) {
    const Units straight = make_layer();
    const Units resumed = make_layer();
    const config::OptimizerSection settings{.kind = kind, .ema_decay = 0.9, .groups = {}};
    Optimizer first(straight, settings);
    for (int number = 1; number <= 3; ++number) take_update(first, straight, number);
    Optimizer second(resumed, settings);
    const auto from = first.state();
    const auto into = second.state();
    ASSERT_EQ(state_names(first), state_names(second));
    for (std::size_t i = 0; i < from.size(); ++i) into[i].value.copy_(from[i].value);
    resumed[0]->shard_value().copy_(straight[0]->shard_value());
    second.restore(first.steps());
    take_update(first, straight, 4);
    take_update(second, resumed, 4);
    EXPECT_TRUE(at::equal(resumed[0]->shard_value(), straight[0]->shard_value()));
  }
}

TEST(UpdateRules, MoveAsFarAsAMeasuredStepSays) {
  for (const OptimizerKind kind :
       {OptimizerKind::kAdamW, OptimizerKind::kMuon, OptimizerKind::kAdamW8bit}) {
    for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
      const auto make_layers = [&] {
        Units units = make_layer(dtype);
        units.push_back(std::move(make_layer(dtype).front()));
        return units;
      };
      const Units plain = make_layers();
      const Units measured = make_layers();
      const config::OptimizerSection settings{.kind = kind, .ema_decay = 0.9, .groups = {}};
      Optimizer first(plain, settings);
      Optimizer second(measured, settings);
      for (const auto& unit : measured) unit->shard_gradient().fill_(0.5);
      for (const auto& unit : plain) unit->shard_gradient().fill_(0.5);
      const at::Tensor before = measured[0]->shard_value().to(at::kFloat, false, /*copy=*/true);
      first.step(0.01, 0.25);
      const UpdateSquares squares = second.measured_step(0.01, 0.25);
      for (std::size_t i = 0; i < plain.size(); ++i)
        EXPECT_TRUE(at::equal(measured[i]->shard_value(), plain[i]->shard_value()));
      const auto twice = [](const at::Tensor& values) {
        return 2 * values.to(at::kDouble).square().sum().item<double>();
      };
      const at::Tensor moved = measured[0]->shard_value().to(at::kFloat) - before;
      EXPECT_NEAR(squares.parameters.by_module[0] / twice(before), 1, 1e-6);
      if (dtype == at::kFloat) {  // bf16 values are rounded masters, which are what moves
        EXPECT_NEAR(squares.change.by_module[0] / twice(moved), 1, 1e-5);
      }
    }
  }
}

TEST(Muon, BringsSingularValuesNearOne) {
  for (const auto& [rows, columns] : {std::pair{96, 64}, {64, 96}, {32, 32}}) {
    const at::Tensor values =
        std::get<1>(at::linalg_svd(orthogonalise(draw_normal({rows, columns}, "matrix"))));
    EXPECT_LT(values.max().item<float>(), 1.3);
    EXPECT_GT(values.median().item<float>(), 0.6);
  }
}

TEST(Muon, TakesTheMatricesOfLayersAlone) {
  const Units units = make_layer();
  const Optimizer optimizer(units, {.kind = OptimizerKind::kMuon, .groups = {}});
  EXPECT_THAT(state_names(optimizer),
              testing::ElementsAre("momentum.map.weight", "step.map.weight", "exp_avg.map.bias",
                                   "exp_avg_sq.map.bias", "step.map.bias", "exp_avg.table.weight",
                                   "exp_avg_sq.table.weight", "step.table.weight"));
  Units none = make_layer();
  none[0]->parameters()[0]->is_map = false;
  EXPECT_THAT([&] { Optimizer(none, {.kind = OptimizerKind::kMuon, .groups = {}}); },
              testing::ThrowsMessage<Error>(testing::HasSubstr("Muon has no matrix")));
}

TEST(ReferenceWeights, StayAsTheyWereAlsoWithinAverages) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    const Units units = make_layer(dtype);
    const at::Tensor& value = units[0]->shard_value();
    const at::Tensor start = value.clone();
    Optimizer optimizer(units, {.ema_decay = 0.75, .groups = {}}, /*keeps_start=*/true);
    for (int number = 1; number <= 3; ++number) take_update(optimizer, units, number);
    const at::Tensor last = value.clone();
    EXPECT_FALSE(at::equal(last, start));
    {
      const InPlace average(optimizer.average());
      const at::Tensor averaged = value.clone();
      {
        const InPlace reference(optimizer.reference());
        EXPECT_TRUE(at::equal(value, start));
      }
      EXPECT_TRUE(at::equal(value, averaged));
    }
    EXPECT_TRUE(at::equal(value, last));
    std::int64_t elements = 0;
    for (const NamedTensor& tensor : optimizer.state())
      if (tensor.name.starts_with("reference.")) elements += tensor.value.numel();
    EXPECT_EQ(elements, units[0]->parameters()[0]->elements() +
                            units[0]->parameters()[1]->elements() +
                            units[0]->parameters()[2]->elements());
  }
}

TEST(AveragedWeights, FollowTheWeightsAndTakeTheirPlace) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    const Units units = make_layer(dtype);
    Optimizer optimizer(units, {.ema_decay = 0.75, .groups = {}});
    EXPECT_EQ(optimizer.kind(), "adamw, averaged");
    const at::Tensor& value = units[0]->shard_value();
    at::Tensor average;
    at::Tensor master;
    for (const NamedTensor& tensor : optimizer.state()) {
      if (tensor.name == "ema.map.weight") average = tensor.value;
      if (tensor.name == "master.map.weight") master = tensor.value;
    }
    if (!master.defined()) master = units[0]->parameters()[0]->value.detach();
    at::Tensor expected = master.clone();
    for (int number = 1; number <= 3; ++number) {
      take_update(optimizer, units, number);
      expected = 0.75 * expected + 0.25 * master;
    }
    EXPECT_TRUE(at::allclose(average, expected, 1e-5, 1e-6));
    const at::Tensor last = value.clone();
    const at::Tensor kept = average.clone();
    {
      const InPlace place(optimizer.average());
      EXPECT_TRUE(at::equal(units[0]->parameters()[0]->value.detach(), kept.to(dtype)));
    }
    EXPECT_TRUE(at::equal(value, last));
    EXPECT_TRUE(at::equal(average, kept));
  }
}

}  // namespace
}  // namespace tributary::train
