#include "ops/rotary.h"

#include <cmath>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ATen/ATen.h>

#include "core/error.h"
#include "tests/ops/finite_difference.h"

namespace tributary::ops {
namespace {

TEST(RotateHeads, TurnsEachPairByItsAngle) {
  const at::Tensor angles = at::tensor({0.3F, -1.1F}).view({1, 2});
  const at::Tensor heads = at::tensor({1.0F, 2.0F, 3.0F, 4.0F}).view({1, 1, 4});
  const at::Tensor out = rotate_heads(heads, make_rotary_table(angles, at::kFloat), 1);
  EXPECT_NEAR(out[0][0][0].item<float>(), std::cos(0.3) - 3 * std::sin(0.3), 1e-6);
  EXPECT_NEAR(out[0][0][2].item<float>(), 3 * std::cos(0.3) + std::sin(0.3), 1e-6);
  EXPECT_NEAR(out[0][0][1].item<float>(), 2 * std::cos(1.1) + 4 * std::sin(1.1), 1e-6);
  EXPECT_NEAR(out[0][0][3].item<float>(), 4 * std::cos(1.1) - 2 * std::sin(1.1), 1e-6);
}

TEST(RotateHeads, CopiesTheHeadsThatAreNotRotated) {
  const at::Tensor heads = random({5, 4, 6}, at::kFloat);
  const RotaryTable table = make_rotary_table(random({5, 3}, at::kFloat), at::kFloat);
  const at::Tensor out = rotate_heads(heads, table, 3);
  EXPECT_TRUE(at::equal(out.select(1, 3), heads.select(1, 3)));
  EXPECT_FALSE(at::equal(out.select(1, 2), heads.select(1, 2)));
}

TEST(RotateHeads, GradientsEqualFiniteDifferences) {
  const RotaryTable table = make_rotary_table(random({3, 2}), at::kDouble);
  const auto rotate = [&](const std::vector<at::Tensor>& inputs) {
    return rotate_heads(inputs[0], table, 2);
  };
  EXPECT_LT(gradient_error(rotate, {random({3, 3, 4})}), 1e-7);
}

/// Compares the f32 kernel of CPUs with the chain of tensor operations, which f64 takes.
TEST(RotateHeads, InF32EqualsF64) {
  for (const std::int64_t half : {1, 5, 16}) {
    const at::Tensor angles = random({150, half});
    const at::Tensor heads = random({150, 5, 2 * half}).requires_grad_();
    const at::Tensor narrow = heads.detach().to(at::kFloat).requires_grad_();
    const at::Tensor gradient = random({150, 5, 2 * half});
    const at::Tensor out = rotate_heads(heads, make_rotary_table(angles, at::kDouble), 3);
    const at::Tensor narrow_out =
        rotate_heads(narrow, make_rotary_table(angles.to(at::kFloat), at::kFloat), 3);
    torch::autograd::backward({out}, {gradient});
    torch::autograd::backward({narrow_out}, {gradient.to(at::kFloat)});
    EXPECT_LT(distance(narrow_out, out), 3e-6) << "half " << half;
    EXPECT_LT(distance(narrow.grad(), heads.grad()), 3e-6) << "half " << half;
  }
}

TEST(RotateHeads, ComputesInTheTypeOfTheTable) {
  const at::Tensor angles = random({64, 8}, at::kFloat);
  const at::Tensor heads = random({64, 2, 16}, at::kBFloat16);
  const at::Tensor exact =
      rotate_heads(heads.to(at::kFloat), make_rotary_table(angles, at::kFloat), 2);
  EXPECT_TRUE(at::equal(rotate_heads(heads, make_rotary_table(angles, at::kFloat), 2),
                        exact.to(at::kBFloat16)));
  EXPECT_FALSE(at::equal(rotate_heads(heads, make_rotary_table(angles, at::kBFloat16), 2),
                         exact.to(at::kBFloat16)));
}

TEST(RotateHeads, NamesATableOfAnotherLength) {
  const RotaryTable table = make_rotary_table(random({4, 2}, at::kFloat), at::kFloat);
  EXPECT_THAT(
      [&] {
        (void)rotate_heads(random({3, 1, 4}, at::kFloat), table, 1);
      },
      testing::ThrowsMessage<Error>(
          testing::HasSubstr("found: heads [3, 1, 4], table [4, 2], 1 rotated")));
}

}  // namespace
}  // namespace tributary::ops
