#include "ops/attend_packed.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <random>

#include <ATen/ATen.h>

#include "core/error.h"
#include "tests/ops/finite_difference.h"

namespace tributary::ops {
namespace {

/// One dense softmax over all tokens with everything outside the sample masked away.
at::Tensor attend_by_dense_mask(const at::Tensor& qkv, std::int64_t heads, std::int64_t kv_heads,
                                const std::vector<std::int32_t>& cu_seqlens, Mask mask) {
  const std::int64_t tokens = qkv.size(0);
  at::Tensor allowed = at::zeros({tokens, tokens}, at::kBool);
  for (std::size_t s = 0; s + 1 < cu_seqlens.size(); ++s)
    for (std::int64_t i = cu_seqlens[s]; i < cu_seqlens[s + 1]; ++i)
      for (std::int64_t j = cu_seqlens[s]; j < cu_seqlens[s + 1]; ++j)
        if (mask == Mask::kNone || j <= i) allowed[i][j] = true;
  std::vector<at::Tensor> results;
  for (std::int64_t head = 0; head < heads; ++head) {
    const std::int64_t kv = head / (heads / kv_heads);
    const at::Tensor q = qkv.select(1, head);
    const at::Tensor k = qkv.select(1, heads + kv);
    const at::Tensor v = qkv.select(1, heads + kv_heads + kv);
    const at::Tensor scores = at::matmul(q, k.t()) / std::sqrt(static_cast<double>(q.size(1)));
    const at::Tensor masked = scores.masked_fill(at::logical_not(allowed), -1e300);
    results.push_back(at::matmul(at::softmax(masked, -1), v));
  }
  return at::stack(results, 1);
}

std::vector<std::int32_t> boundaries(const std::vector<std::int32_t>& lengths) {
  std::vector<std::int32_t> result{0};
  for (const std::int32_t length : lengths) result.push_back(result.back() + length);
  return result;
}

TEST(AttendPacked, EqualsADenseMaskOnRandomPacks) {
  for (unsigned seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(str("seed ", seed));
    std::mt19937 generator(seed);
    std::vector<std::int32_t> lengths(1 + generator() % 9);
    const unsigned longest = seed % 3 == 0 ? 90 : 12;
    for (std::int32_t& length : lengths) length = static_cast<std::int32_t>(generator() % longest);
    lengths[0] = 3;  // never an empty pack
    const std::vector<std::int32_t> cu_seqlens = boundaries(lengths);
    const std::int64_t kv_heads = 1 + static_cast<std::int64_t>(generator() % 2);
    const std::int64_t heads = kv_heads * (1 + static_cast<std::int64_t>(generator() % 3));
    const Mask mask = generator() % 2 == 0 ? Mask::kNone : Mask::kCausal;
    const at::Tensor qkv = random({cu_seqlens.back(), heads + 2 * kv_heads, 8});
    const at::Tensor out =
        attend_packed(qkv, heads, kv_heads, SampleGroups(cu_seqlens, mask, at::kCPU));
    EXPECT_LT(distance(out, attend_by_dense_mask(qkv, heads, kv_heads, cu_seqlens, mask)), 1e-12);
  }
}

TEST(AttendPacked, GradientsEqualFiniteDifferences) {
  for (const Mask mask : {Mask::kNone, Mask::kCausal}) {
    const SampleGroups groups(boundaries({3, 0, 5, 2, 3}), mask, at::kCPU);
    const auto attend = [&](const std::vector<at::Tensor>& inputs) {
      return attend_packed(inputs[0], /*heads=*/4, /*kv_heads=*/2, groups);
    };
    EXPECT_LT(gradient_error(attend, {random({13, 8, 4})}), 1e-7);
  }
}

TEST(AttendPacked, LetsNoGradientThroughToAnotherSample) {
  const SampleGroups groups(boundaries({4, 6}), Mask::kCausal, at::kCPU);
  const at::Tensor qkv = random({10, 3, 4}).requires_grad_();
  const at::Tensor out = attend_packed(qkv, 1, 1, groups);
  torch::autograd::backward({at::sum(out.narrow(0, 4, 6))});
  EXPECT_EQ(at::abs(qkv.grad().narrow(0, 0, 4)).max().item<double>(), 0.0);
  EXPECT_GT(at::abs(qkv.grad().narrow(0, 4, 6)).max().item<double>(), 0.0);
}

TEST(SampleGroups, PutsEqualWindowsIntoOneCallInPlace) {
  const SampleGroups groups(boundaries({16, 16, 16}), Mask::kNone, at::kCPU);
  ASSERT_EQ(groups.groups().size(), 1u);
  EXPECT_EQ(groups.groups()[0].samples, 3);
  EXPECT_TRUE(groups.in_place());
}

TEST(SampleGroups, PadsShortCausalSamplesIntoOneCall) {
  const SampleGroups groups(boundaries({40, 16, 33}), Mask::kCausal, at::kCPU);
  ASSERT_EQ(groups.groups().size(), 1u);
  EXPECT_EQ(groups.groups()[0].length, 40);
  EXPECT_EQ(groups.rows(), 120);
  EXPECT_EQ(groups.padding_rows().numel(), 120 - 89);
}

TEST(SampleGroups, NeverPadsASampleMoreThanThreefold) {
  for (const std::int32_t longest : {10, 48, 49, 500}) {
    std::vector<std::int32_t> lengths(40, 1);
    for (std::int32_t length = 1; length <= longest; length += 7) lengths.push_back(length);
    const std::vector<std::int32_t> cu_seqlens = boundaries(lengths);
    const SampleGroups groups(cu_seqlens, Mask::kCausal, at::kCPU);
    EXPECT_LE(groups.rows(), 3 * groups.tokens());
    EXPECT_LT(groups.groups().size(), 16u);
  }
}

TEST(SampleGroups, NeverPadsWithoutAMask) {
  const SampleGroups groups(boundaries({8, 4, 8}), Mask::kNone, at::kCPU);
  EXPECT_EQ(groups.groups().size(), 2u);
  EXPECT_EQ(groups.padding_rows().numel(), 0);
}

TEST(SampleGroups, RefusesBoundariesThatDescend) {
  EXPECT_THAT(
      [] {
        SampleGroups(std::vector<std::int32_t>{0, 5, 3}, Mask::kNone, at::kCPU);
      },
      testing::ThrowsMessage<Error>(testing::HasSubstr("sample boundaries do not ascend from 0")));
}

TEST(AttendPacked, NamesTheShapesThatDoNotFit) {
  const SampleGroups groups(boundaries({4}), Mask::kNone, at::kCPU);
  EXPECT_THAT(
      [&] {
        (void)attend_packed(random({4, 5, 2}), 4, 1, groups);
      },
      testing::ThrowsMessage<Error>(testing::HasSubstr(
          "found: qkv [4, 5, 2], 4 heads, 1 kv_heads, 4 tokens in the samples")));
}

}  // namespace
}  // namespace tributary::ops
