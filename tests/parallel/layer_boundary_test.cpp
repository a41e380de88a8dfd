#include "parallel/layer_boundary.h"

#include <gtest/gtest.h>

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include "parallel/linear.h"

namespace tributary::parallel {
namespace {

struct Outcome {
  at::Tensor out;
  at::Tensor input_gradient;
  at::Tensor parameter_gradient;
  int calls = 0;
};

Outcome run_two_layers(Keep keep, bool input_needs_gradient) {
  Unit unit("backbone", "layer");
  const Linear linear(unit, "linear", {.in = 8, .out = 8, .bias = Bias::kZeros});
  unit.materialize(at::kCPU, at::kFloat, /*trainable=*/true);
  unit.shard_value().copy_(at::linspace(-0.4, 0.5, unit.shard_value().numel()));
  const at::Tensor input =
      at::linspace(-1, 1, 40).view({5, 8}).requires_grad_(input_needs_gradient);
  Outcome outcome;
  const LayerBody body = [&](const at::Tensor& hidden) {
    ++outcome.calls;
    return hidden + at::silu(linear(hidden));
  };
  at::Tensor hidden = input;
  for (int layer = 0; layer < 2; ++layer) hidden = run_layer(unit, keep, hidden, body);
  outcome.out = hidden.detach();
  torch::autograd::backward({at::sum(hidden * hidden)});
  outcome.input_gradient = input.grad();
  outcome.parameter_gradient = unit.shard_gradient();
  return outcome;
}

TEST(RunLayer, GivesBitEqualGradientsWhenItRunsAgainInBackward) {
  for (const bool input_needs_gradient : {true, false}) {
    const Outcome kept = run_two_layers(Keep::kActivations, input_needs_gradient);
    const Outcome again = run_two_layers(Keep::kInput, input_needs_gradient);
    EXPECT_EQ(kept.calls, 2);
    EXPECT_EQ(again.calls, 4);
    EXPECT_TRUE(at::equal(kept.out, again.out));
    EXPECT_TRUE(at::equal(kept.parameter_gradient, again.parameter_gradient));
    EXPECT_GT(at::abs(again.parameter_gradient).max().item<float>(), 0.0F);
    if (input_needs_gradient) {
      EXPECT_TRUE(at::equal(kept.input_gradient, again.input_gradient));
    }
  }
}

TEST(RunLayer, RunsAFrozenLayerOnceWithNothingTrainableUpstream) {
  Unit unit("backbone", "layer");
  unit.declare("a", {3}, {});
  unit.materialize(at::kCPU, at::kFloat, /*trainable=*/false);
  const at::Tensor out = run_layer(unit, Keep::kInput, at::ones({3}),
                                   [](const at::Tensor& hidden) { return hidden * 2; });
  EXPECT_FALSE(out.requires_grad());
}

TEST(RunPart, KeepsNothingButItsInputAndGivesTheSameGradients) {
  Unit unit("backbone", "layer");
  const Linear linear(unit, "linear", {.in = 8, .out = 8, .bias = Bias::kZeros});
  unit.materialize(at::kCPU, at::kFloat, /*trainable=*/true);
  unit.shard_value().copy_(at::linspace(-0.4, 0.5, unit.shard_value().numel()));
  const auto run = [&](Keep keep, LayerPart part, bool expect_kept) {
    unit.clear_gradient();
    const at::Tensor input = at::linspace(-1, 1, 40).view({5, 8}).requires_grad_();
    c10::weak_intrusive_ptr<c10::TensorImpl> inside(at::empty({0}).getIntrusivePtr());
    const at::Tensor out = run_layer(unit, keep, input, [&](const at::Tensor& hidden) {
      return hidden + run_part(unit, keep, part, hidden, [&](const at::Tensor& x) {
               const at::Tensor middle = linear(x);
               inside = c10::weak_intrusive_ptr<c10::TensorImpl>(middle.getIntrusivePtr());
               return at::square(middle);
             });
    });
    EXPECT_EQ(!inside.expired(), expect_kept);
    torch::autograd::backward({at::sum(out * out)});
    return std::pair(input.grad(), unit.shard_gradient().clone());
  };
  for (const LayerPart part : {LayerPart::kMlp, LayerPart::kAttention}) {
    const bool is_mlp = part == LayerPart::kMlp;
    const auto kept = run(Keep::kActivations, part, true);
    (void)run(is_mlp ? Keep::kMlp : Keep::kAttention, part, true);
    const auto again = run(is_mlp ? Keep::kAttention : Keep::kMlp, part, false);
    EXPECT_TRUE(at::equal(kept.first, again.first));
    EXPECT_TRUE(at::equal(kept.second, again.second));
  }
}

}  // namespace
}  // namespace tributary::parallel
