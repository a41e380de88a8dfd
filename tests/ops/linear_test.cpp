#include "ops/linear.h"

#include <gtest/gtest.h>

#include <ATen/ATen.h>

#include "tests/ops/finite_difference.h"

namespace tributary::ops {
namespace {

TEST(Linear, MultipliesByTheTransposedWeightAndAddsTheBias) {
  const at::Tensor x = at::tensor({1.0, 2.0, 3.0}).view({1, 3});
  const at::Tensor weight = at::tensor({1.0, 0.0, -1.0, 2.0, 1.0, 0.5}).view({2, 3});
  const at::Tensor out = linear(x, weight, at::tensor({10.0, 20.0}));
  EXPECT_EQ(out[0][0].item<double>(), 8.0);
  EXPECT_EQ(out[0][1].item<double>(), 25.5);
}

TEST(Linear, GradientsEqualFiniteDifferences) {
  const auto apply = [](const std::vector<at::Tensor>& inputs) {
    return linear(inputs[0], inputs[1], inputs[2]);
  };
  EXPECT_LT(gradient_error(apply, {random({4, 3}), random({5, 3}), random({5})}), 1e-7);
}

TEST(Linear, RoundsHalfPrecisionOnce) {
  const at::Tensor x = random({9, 64}, at::kBFloat16);
  const at::Tensor weight = random({17, 64}, at::kBFloat16);
  const at::Tensor wide = at::linear(x.to(at::kFloat), weight.to(at::kFloat));
  EXPECT_TRUE(at::equal(tributary::ops::linear(x, weight, at::Tensor()), wide.to(at::kBFloat16)));
}

}  // namespace
}  // namespace tributary::ops
