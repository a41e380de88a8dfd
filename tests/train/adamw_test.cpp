#include <cmath>
#include <gtest/gtest.h>
#include <map>

#include <ATen/ATen.h>

#include "core/random.h"
#include "train/optimizer/optimizer.h"

namespace tributary::train {
namespace {

using Units = std::vector<std::unique_ptr<parallel::Unit>>;

Units make_units(at::ScalarType dtype = at::kFloat) {
  Units units;
  units.push_back(std::make_unique<parallel::Unit>("vision", "vision.layers.0"));
  units.back()->declare("v.weight", {5, 3}, {});
  units.back()->declare("v.bias", {5}, {});
  units.back()->declare("v.out.weight", {2, 2}, {});
  units.push_back(std::make_unique<parallel::Unit>("backbone", "backbone.layers.0"));
  units.back()->declare("b.weight", {4, 4}, {});
  for (auto& unit : units) {
    unit->materialize(at::kCPU, dtype, /*trainable=*/true);
    for (const auto& parameter : unit->parameters()) {
      RandomStream random(1, parameter->name);
      at::Tensor values = at::empty(parameter->shape, at::kFloat);
      for (std::int64_t i = 0; i < values.numel(); ++i)
        values.data_ptr<float>()[i] = static_cast<float>(random.normal());
      const at::NoGradGuard no_grad;
      parameter->value.copy_(values);
    }
  }
  return units;
}

/// Fills each parameter's gradient of one step only from (step, name).
void fill_gradients(const Units& units, int step) {
  for (const auto& unit : units) {
    for (const auto& parameter : unit->parameters()) {
      RandomStream random(2, parameter->name, static_cast<std::uint64_t>(step));
      at::Tensor values = at::empty(parameter->shape, at::kFloat);
      for (std::int64_t i = 0; i < values.numel(); ++i)
        values.data_ptr<float>()[i] = static_cast<float>(random.normal());
      parameter->value.grad().copy_(values);
    }
  }
}

/// The algorithm of the paper for one element, in f64.
struct ScalarAdamW {
  double value = 0;
  double mean = 0;
  double square = 0;

  void step(double gradient, int t, double rate, double decay,
            const config::OptimizerSection& settings) {
    value -= rate * decay * value;
    mean = settings.beta1 * mean + (1 - settings.beta1) * gradient;
    square = settings.beta2 * square + (1 - settings.beta2) * gradient * gradient;
    const double mean_hat = mean / (1 - std::pow(settings.beta1, t));
    const double square_hat = square / (1 - std::pow(settings.beta2, t));
    value -= rate * mean_hat / (std::sqrt(square_hat) + settings.epsilon);
  }
};

struct Rate {
  double scale = 1;
  double decay = 0;
};

/// Runs the optimizer and the scalar algorithm side by side and compares each element.
void compare_with_scalars(const config::OptimizerSection& settings,
                          const std::map<std::string, Rate>& rates, double factor) {
  const Units units = make_units();
  std::map<std::string, std::vector<ScalarAdamW>> reference;
  for (const auto& unit : units) {
    for (const auto& parameter : unit->parameters()) {
      const at::Tensor flat = parameter->value.detach().reshape({-1});
      for (std::int64_t i = 0; i < flat.numel(); ++i)
        reference[parameter->name].push_back({.value = flat.const_data_ptr<float>()[i]});
    }
  }
  Optimizer optimizer(units, settings);
  for (int step = 1; step <= 5; ++step) {
    fill_gradients(units, step);
    const double rate = 0.01 * step;
    for (const auto& unit : units) {
      for (const auto& parameter : unit->parameters()) {
        const at::Tensor gradient = parameter->value.grad().clone().reshape({-1});
        auto& elements = reference[parameter->name];
        for (std::size_t i = 0; i < elements.size(); ++i)
          elements[i].step(factor * gradient.const_data_ptr<float>()[i], step,
                           rate * rates.at(parameter->name).scale, rates.at(parameter->name).decay,
                           settings);
      }
    }
    optimizer.step(rate, factor);
  }
  EXPECT_EQ(optimizer.steps(), 5);
  for (const auto& unit : units) {
    for (const auto& parameter : unit->parameters()) {
      const at::Tensor flat = parameter->value.detach().reshape({-1});
      for (std::int64_t i = 0; i < flat.numel(); ++i)
        EXPECT_NEAR(flat.const_data_ptr<float>()[i],
                    reference[parameter->name][static_cast<std::size_t>(i)].value, 2e-6)
            << parameter->name << " element " << i;
    }
  }
}

TEST(AdamW, AgreesWithTheScalarAlgorithm) {
  compare_with_scalars({.weight_decay = 0.2, .groups = {}},
                       {{"v.weight", {1, 0.2}},
                        {"v.bias", {1, 0}},
                        {"v.out.weight", {1, 0.2}},
                        {"b.weight", {1, 0.2}}},
                       /*factor=*/1);
}

TEST(AdamW, AppliesGroupsAndTheGradientFactor) {
  config::OptimizerSection settings{.weight_decay = 0.2, .groups = {}};
  settings.groups = {{.match = "v.out.*", .learning_rate_scale = 3, .weight_decay = 0},
                     {.match = "vision", .learning_rate_scale = 0.5, .weight_decay = 0.7}};
  compare_with_scalars(settings,
                       {{"v.weight", {0.5, 0.7}},
                        {"v.bias", {0.5, 0.7}},
                        {"v.out.weight", {3, 0}},
                        {"b.weight", {1, 0.2}}},
                       /*factor=*/0.125);
}

TEST(AdamW, ContinuesBitEqualFromItsState) {
  const Units straight = make_units();
  const Units resumed = make_units();
  Optimizer first(straight, {});
  for (int step = 1; step <= 3; ++step) {
    fill_gradients(straight, step);
    first.step(0.01, 1);
  }
  Optimizer second(resumed, {});
  const auto from = first.state();
  const auto into = second.state();
  ASSERT_EQ(from.size(), into.size());
  ASSERT_EQ(from.size(), 3U * 4U);
  for (std::size_t i = 0; i < from.size(); ++i) {
    ASSERT_EQ(from[i].name, into[i].name);
    into[i].value.copy_(from[i].value);
  }
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < straight.size(); ++i)
    resumed[i]->shard_value().copy_(straight[i]->shard_value());
  second.restore(first.steps());
  for (int step = 4; step <= 6; ++step) {
    for (const Units* units : {&straight, &resumed}) fill_gradients(*units, step);
    first.step(0.02, 0.5);
    second.step(0.02, 0.5);
  }
  for (std::size_t i = 0; i < straight.size(); ++i)
    EXPECT_TRUE(at::equal(resumed[i]->shard_value(), straight[i]->shard_value()));
}

TEST(AdamW, NamesItsStateByParameter) {
  const Units units = make_units();
  std::vector<std::string> names;
  for (const auto& entry : Optimizer(units, {}).state()) names.push_back(entry.name);
  EXPECT_EQ(std::vector<std::string>(names.begin(), names.begin() + 3),
            (std::vector<std::string>{"exp_avg.v.weight", "exp_avg_sq.v.weight", "step.v.weight"}));
}

TEST(AdamW, KeepsAnF32MasterOfBf16Values) {
  const Units units = make_units(at::kBFloat16);
  Optimizer optimizer(units, {.weight_decay = 0, .groups = {}});
  at::Tensor master;
  for (const auto& entry : optimizer.state())
    if (entry.name == "master.v.weight") master = entry.value;
  ASSERT_TRUE(master.defined());
  // Steps far below the resolution of bf16 at 1 must add up in the master.
  const at::Tensor before = master.clone();
  for (int step = 1; step <= 4; ++step) {
    for (const auto& unit : units) unit->shard_gradient().fill_(1);
    optimizer.step(1e-5, 1);
  }
  EXPECT_TRUE(at::allclose(before - master, at::full_like(master, 4e-5), 0, 1e-6));
  EXPECT_TRUE(at::equal(units[0]->parameters()[0]->value.detach(), master.to(at::kBFloat16)));
}

}  // namespace
}  // namespace tributary::train
