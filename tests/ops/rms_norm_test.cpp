#include "ops/rms_norm.h"

#include <cmath>
#include <gtest/gtest.h>
#include <limits>

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

/// Compares the f32 kernel of CPUs with the chain of tensor operations, which f64 takes.
TEST(RmsNorm, InF32EqualsF64) {
  for (const std::int64_t width : {1, 7, 64, 130}) {
    const at::Tensor x = random({1300, width}).requires_grad_();
    const at::Tensor weight = random({width}).requires_grad_();
    const at::Tensor narrow_x = x.detach().to(at::kFloat).requires_grad_();
    const at::Tensor narrow_weight = weight.detach().to(at::kFloat).requires_grad_();
    const at::Tensor gradient = random({1300, width});
    const at::Tensor out = rms_norm(x, weight, 1e-6);
    const at::Tensor narrow_out = rms_norm(narrow_x, narrow_weight, 1e-6);
    torch::autograd::backward({out}, {gradient});
    torch::autograd::backward({narrow_out}, {gradient.to(at::kFloat)});
    EXPECT_LT(distance(narrow_out, out), 2e-6 * largest(out)) << "width " << width;
    EXPECT_LT(distance(narrow_x.grad(), x.grad()), 2e-5 * largest(x.grad())) << "width " << width;
    // A sum of 1300 terms of either sign, each of about 1.
    EXPECT_LT(distance(narrow_weight.grad(), weight.grad()), 1e-4) << "width " << width;
  }
}

TEST(RmsNorm, PassesOnWhatIsNotANumber) {
  at::Tensor x = at::ones({2, 8});
  x[1][3] = std::numeric_limits<float>::quiet_NaN();
  const at::Tensor out = rms_norm(x, at::ones({8}), 1e-6);
  EXPECT_FALSE(at::any(at::isnan(out[0])).item<bool>());
  EXPECT_TRUE(at::all(at::isnan(out[1])).item<bool>());
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
