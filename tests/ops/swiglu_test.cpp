#include "ops/swiglu.h"

#include <cmath>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

TEST(Swiglu, RefusesAnOddWidth) {
  EXPECT_THAT(
      [] {
        (void)swiglu(random({2, 3}));
      },
      testing::ThrowsMessage<Error>(testing::HasSubstr("found: shape [2, 3]")));
}

}  // namespace
}  // namespace tributary::ops
