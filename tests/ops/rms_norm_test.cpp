#include "ops/rms_norm.h"

#include <cmath>
#include <gtest/gtest.h>

#include <ATen/ATen.h>

#include "tests/ops/finite_difference.h"

namespace tributary::ops {
namespace {

TEST(RmsNorm, DividesByTheRootMeanSquare) {
  const at::Tensor out =
      rms_norm(at::tensor({3.0, 4.0}).view({1, 2}), at::tensor({2.0, -1.0}), /*epsilon=*/0.5);
  EXPECT_NEAR(out[0][0].item<double>(), 6 / std::sqrt(13.0), 1e-12);
  EXPECT_NEAR(out[0][1].item<double>(), -4 / std::sqrt(13.0), 1e-12);
}

TEST(RmsNorm, GradientsEqualFiniteDifferences) {
  const auto norm = [](const std::vector<at::Tensor>& inputs) {
    return rms_norm(inputs[0], inputs[1], 1e-3);
  };
  EXPECT_LT(gradient_error(norm, {random({5, 7}), random({7})}), 1e-7);
  EXPECT_LT(gradient_error(norm, {random({3, 2, 4}), random({4})}), 1e-7);
}

TEST(RmsNorm, TakesHeadsThatAreAViewOfAWiderTensor) {
  const at::Tensor wide = random({6, 5, 4}, at::kFloat);
  const at::Tensor heads = wide.narrow(1, 1, 3);
  const at::Tensor weight = random({4}, at::kFloat);
  EXPECT_TRUE(at::equal(rms_norm(heads, weight, 1e-6), rms_norm(heads.contiguous(), weight, 1e-6)));
}

TEST(RmsNorm, MultipliesTheWeightAfterRounding) {
  const at::Tensor x = random({8, 32}, at::kBFloat16);
  const at::Tensor weight = random({32}, at::kBFloat16);
  const at::Tensor wide = x.to(at::kFloat);
  const at::Tensor mean = at::mean(wide.square(), at::IntArrayRef{-1}, true);
  const at::Tensor expected = weight * (wide * at::rsqrt(mean + 1e-6)).to(at::kBFloat16);
  // The root is taken in another order, so a last bit of bf16 may fall the other way.
  EXPECT_LE(distance(rms_norm(x, weight, 1e-6), expected), 0.02);
  EXPECT_GT(at::eq(rms_norm(x, weight, 1e-6), expected).to(at::kFloat).mean().item<float>(), 0.98);
}

}  // namespace
}  // namespace tributary::ops
