#include "ops/swiglu.h"

#include <cmath>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits>

#include <ATen/ATen.h>

#include "core/error.h"
#include "tests/ops/finite_difference.h"

namespace tributary::ops {
namespace {

TEST(Swiglu, GatesTheSecondHalfByTheFirst) {
  const at::Tensor out = swiglu(at::tensor({1.0, -2.0, 3.0, 5.0}).view({1, 4}));
  EXPECT_NEAR(out[0][0].item<double>(), 3 * 1 / (1 + std::exp(-1.0)), 1e-12);
  EXPECT_NEAR(out[0][1].item<double>(), 5 * -2 / (1 + std::exp(2.0)), 1e-12);
}

TEST(Swiglu, GradientsEqualFiniteDifferences) {
  const auto gate = [](const std::vector<at::Tensor>& inputs) { return swiglu(inputs[0]); };
  EXPECT_LT(gradient_error(gate, {random({4, 6})}), 1e-7);
}

/// Compares the f32 kernel of CPUs with the chain of tensor operations, which f64 takes.
TEST(Swiglu, InF32EqualsF64) {
  for (const std::int64_t width : {1, 13, 64}) {
    at::Tensor wide = random({300, 2 * width}) * 12;
    wide[0].fill_(-95);  // e^x underflows here
    wide[1].fill_(95);
    wide.requires_grad_();
    const at::Tensor narrow = wide.detach().to(at::kFloat).requires_grad_();
    const at::Tensor gradient = random({300, width});
    const at::Tensor out = swiglu(wide);
    const at::Tensor narrow_out = swiglu(narrow);
    torch::autograd::backward({out}, {gradient});
    torch::autograd::backward({narrow_out}, {gradient.to(at::kFloat)});
    EXPECT_LT(distance(narrow_out, out), 1e-6 * largest(out)) << "width " << width;
    EXPECT_LT(distance(narrow.grad(), wide.grad()), 1e-6 * largest(wide.grad()));
  }
}

TEST(Swiglu, PassesOnWhatIsNotFinite) {
  at::Tensor gate_up = at::ones({3, 8});
  gate_up[0][2] = std::numeric_limits<float>::quiet_NaN();
  gate_up[1][6] = std::numeric_limits<float>::infinity();
  const at::Tensor is_finite = at::isfinite(swiglu(gate_up)).all(1);
  EXPECT_FALSE(is_finite[0].item<bool>());
  EXPECT_FALSE(is_finite[1].item<bool>());
  EXPECT_TRUE(is_finite[2].item<bool>());
}

TEST(Swiglu, RefusesAnOddWidth) {
  EXPECT_THAT(
      [] {
        (void)swiglu(random({2, 3}));
      },
      testing::ThrowsMessage<Error>(testing::HasSubstr("found: shape [2, 3]")));
}

}  // namespace
}  // namespace tributary::ops
