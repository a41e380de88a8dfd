#include "ops/attend_cached.h"

#include <cmath>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits>

#include <ATen/ATen.h>

#include "core/error.h"
#include "tests/ops/finite_difference.h"

namespace tributary::ops {
namespace {

TEST(AttendCached, EqualsASoftmaxOverTheColumnsThatHoldTokens) {
  constexpr std::int64_t kSamples = 3;
  constexpr std::int64_t kKept = 7;
  const std::vector<std::int64_t> starts{0, 4, 6};
  for (const std::int64_t kv_heads : {1, 2, 4}) {
    const at::Tensor q = random({kSamples, 4, 6});
    const at::Tensor kept = random({kSamples, kKept, 2 * kv_heads, 6});
    at::Tensor hidden = at::zeros({kSamples, 1, 1, kKept}, at::kDouble);
    for (std::int64_t i = 0; i < kSamples; ++i)
      hidden[i].narrow(2, 0, starts[i]).fill_(-std::numeric_limits<double>::infinity());
    const at::Tensor out = attend_cached(q, kept, hidden);
    for (std::int64_t i = 0; i < kSamples; ++i) {
      for (std::int64_t head = 0; head < 4; ++head) {
        const std::int64_t kv = head / (4 / kv_heads);
        const at::Tensor real = kept[i].narrow(0, starts[i], kKept - starts[i]);
        const at::Tensor scores = at::mv(real.select(1, kv), q[i][head]) / std::sqrt(6.0);
        const at::Tensor expected =
            at::mv(real.select(1, kv_heads + kv).t(), at::softmax(scores, 0));
        EXPECT_LT(distance(out[i][head], expected), 1e-12) << "sample " << i << ", head " << head;
      }
    }
  }
}

TEST(AttendCached, NeedsNoMaskWhenAllColumnsHoldTokens) {
  const at::Tensor q = random({2, 4, 6});
  const at::Tensor kept = random({2, 5, 4, 6});
  const at::Tensor zeros = at::zeros({2, 1, 1, 5}, at::kDouble);
  EXPECT_LT(distance(attend_cached(q, kept, {}), attend_cached(q, kept, zeros)), 1e-12);
}

TEST(AttendCached, NamesTheShapesThatDoNotFit) {
  EXPECT_THAT(
      [] {
        (void)attend_cached(random({2, 3, 6}), random({2, 5, 4, 6}), {});
      },
      testing::ThrowsMessage<Error>(
          testing::HasSubstr("found: q [2, 3, 6], keys_values [2, 5, 4, 6]")));
}

}  // namespace
}  // namespace tributary::ops
