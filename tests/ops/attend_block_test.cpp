#include "ops/attend_block.h"

#include <gtest/gtest.h>

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

namespace tributary::ops {
namespace {

struct Inputs {
  at::Tensor queries;  // [2, 4, 5, 8]
  at::Tensor keys;     // [2, kv_heads, 9, 8]
  at::Tensor values;
};

Inputs random_inputs(std::int64_t kv_heads) {
  at::manual_seed(5);
  return {at::randn({2, 4, 5, 8}), at::randn({2, kv_heads, 9, 8}), at::randn({2, kv_heads, 9, 8})};
}

at::Tensor attend_plain(const Inputs& in) {
  const std::int64_t repeats = 4 / in.keys.size(1);
  const at::Tensor scores =
      at::matmul(in.queries, in.keys.repeat_interleave(repeats, 1).transpose(2, 3)) /
      std::sqrt(8.0);
  return at::matmul(scores.softmax(-1), in.values.repeat_interleave(repeats, 1));
}

BlockResult attend_part(const Inputs& in, std::int64_t first, std::int64_t count) {
  return attend_block(in.queries, in.keys.narrow(2, first, count),
                      in.values.narrow(2, first, count), Mask::kNone);
}

class AttendBlock : public testing::TestWithParam<std::int64_t> {};
INSTANTIATE_TEST_SUITE_P(KeyHeads, AttendBlock, testing::Values(1, 2, 4));

TEST_P(AttendBlock, JoinsPartsToTheWhole) {
  const Inputs in = random_inputs(GetParam());
  const BlockResult joined =
      join_blocks(join_blocks(attend_part(in, 4, 3), attend_part(in, 0, 4)), attend_part(in, 7, 2));
  EXPECT_TRUE(at::allclose(joined.out, attend_plain(in), 1e-5, 1e-6));
  EXPECT_TRUE(at::allclose(joined.log_sum, attend_part(in, 0, 9).log_sum, 1e-5, 1e-6));
}

TEST_P(AttendBlock, SharesTheGradientAmongParts) {
  Inputs in = random_inputs(GetParam());
  const at::Tensor gradient = at::randn({2, 4, 5, 8});
  const BlockResult all = attend_part(in, 0, 9);
  at::Tensor queries = at::zeros_like(in.queries);
  std::vector<at::Tensor> keys;
  std::vector<at::Tensor> values;
  for (const std::pair<std::int64_t, std::int64_t> part : {std::pair{0, 4}, {4, 3}, {7, 2}}) {
    const BlockGradients some =
        attend_block_backward(gradient, in.queries, in.keys.narrow(2, part.first, part.second),
                              in.values.narrow(2, part.first, part.second), all, Mask::kNone);
    queries += some.queries;
    keys.push_back(some.keys);
    values.push_back(some.values);
  }
  for (at::Tensor* input : {&in.queries, &in.keys, &in.values}) input->requires_grad_();
  torch::autograd::backward({attend_plain(in)}, {gradient});
  EXPECT_TRUE(at::allclose(queries, in.queries.grad(), 1e-4, 1e-6));
  EXPECT_TRUE(at::allclose(at::cat(keys, 2), in.keys.grad(), 1e-4, 1e-6));
  EXPECT_TRUE(at::allclose(at::cat(values, 2), in.values.grad(), 1e-4, 1e-6));
}

}  // namespace
}  // namespace tributary::ops
