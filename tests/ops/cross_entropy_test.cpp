#include "ops/cross_entropy.h"

#include <cmath>
#include <gtest/gtest.h>

#include <ATen/ATen.h>

#include "tests/ops/finite_difference.h"

namespace tributary::ops {
namespace {

TEST(CrossEntropy, IsTheNegativeLogOfTheTargetsShare) {
  const at::Tensor logits = at::tensor({std::log(1.0), std::log(3.0), std::log(4.0),  //
                                        std::log(5.0), std::log(5.0), std::log(10.0)})
                                .view({2, 3});
  const at::Tensor losses = cross_entropy(logits, at::tensor({1, 2}, at::kLong));
  EXPECT_NEAR(losses[0].item<double>(), -std::log(3.0 / 8), 1e-12);
  EXPECT_NEAR(losses[1].item<double>(), -std::log(0.5), 1e-12);
}

TEST(CrossEntropy, GradientsEqualFiniteDifferences) {
  const at::Tensor targets = at::tensor({3, 0, 4, 4}, at::kLong);
  const auto loss = [&](const std::vector<at::Tensor>& inputs) {
    return cross_entropy(inputs[0], targets);
  };
  EXPECT_LT(gradient_error(loss, {random({4, 5})}), 1e-7);
}

TEST(CrossEntropy, TakesHalfPrecisionInF32) {
  const at::Tensor logits = random({7, 11}, at::kBFloat16);
  const at::Tensor targets = at::arange(7, at::kLong);
  const at::Tensor losses = cross_entropy(logits, targets);
  EXPECT_EQ(losses.scalar_type(), at::kFloat);
  EXPECT_LT(distance(losses, cross_entropy(logits.to(at::kFloat), targets)), 1e-6);
}

}  // namespace
}  // namespace tributary::ops
