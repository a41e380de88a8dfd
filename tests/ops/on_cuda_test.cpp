// Every op on a CUDA device beside the same op on the CPU: results and gradients, in f32 and in
// bf16.
#include <functional>
#include <gtest/gtest.h>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include "mesh/device.h"
#include "ops/activation.h"
#include "ops/attend_block.h"
#include "ops/attend_cached.h"
#include "ops/attend_packed.h"
#include "ops/cross_entropy.h"
#include "ops/linear.h"
#include "ops/permute_rows.h"
#include "ops/rms_norm.h"
#include "ops/rotary.h"
#include "ops/select_rows.h"
#include "ops/swiglu.h"
#include "ops/to_device.h"

namespace tributary::ops {
namespace {

using Tensors = std::vector<at::Tensor>;

struct Case {
  std::string name;
  std::vector<std::vector<std::int64_t>> shapes;  // of the inputs
  std::function<at::Tensor(const Tensors&)> op;
};

at::Tensor attend(const at::Tensor& qkv, std::int64_t heads, std::int64_t kv_heads,
                  const std::vector<std::int32_t>& cu_seqlens, Mask mask) {
  return attend_packed(qkv, heads, kv_heads, SampleGroups(cu_seqlens, mask, qkv.device()));
}

at::Tensor rotate(const at::Tensor& heads) {
  at::manual_seed(3);
  const at::Tensor angles = at::rand({heads.size(0), heads.size(2) / 2}) * 6;
  return rotate_heads(heads, make_rotary_table(to_device(angles, heads.device()), at::kFloat), 3);
}

const std::vector<std::int32_t> kUneven{0, 3, 3, 40, 41, 93, 160};

std::vector<Case> list_cases() {
  return {
      {"causal attention",
       {{160, 6, 64}},
       [](const Tensors& in) { return attend(in[0], 4, 1, kUneven, Mask::kCausal); }},
      {"attention of whole samples",
       {{160, 12, 80}},
       [](const Tensors& in) { return attend(in[0], 4, 4, kUneven, Mask::kNone); }},
      {"attention of narrow heads",
       {{160, 4, 10}},
       [](const Tensors& in) { return attend(in[0], 2, 1, kUneven, Mask::kCausal); }},
      {"attention of long samples",
       {{1500, 8, 128}},
       [](const Tensors& in) {
         return attend(in[0], 4, 2, {0, 1100, 1500}, Mask::kCausal);
       }},
      {"cached attention",
       {{3, 4, 64}, {3, 17, 4, 64}},
       [](const Tensors& in) { return attend_cached(in[0], in[1], {}); }},
      {"norm", {{50, 96}, {96}}, [](const Tensors& in) { return rms_norm(in[0], in[1], 1e-6); }},
      {"swiglu", {{50, 96}}, [](const Tensors& in) { return swiglu(in[0]); }},
      {"gelu",
       {{50, 96}},
       [](const Tensors& in) { return activate(in[0], Activation::kGeluTanh); }},
      {"quick gelu",
       {{50, 96}},
       [](const Tensors& in) { return activate(in[0], Activation::kQuickGelu); }},
      {"rotary", {{50, 4, 16}}, [](const Tensors& in) { return rotate(in[0]); }},
      {"linear",
       {{50, 96}, {40, 96}, {40}},
       [](const Tensors& in) { return linear(in[0], in[1], in[2]); }},
      {"cross entropy",
       {{50, 96}},
       [](const Tensors& in) {
         return cross_entropy(in[0], to_device(at::arange(50), in[0].device()));
       }},
      {"select rows",
       {{50, 96}},
       [](const Tensors& in) {
         return select_rows(in[0], to_device(at::tensor({1, 4, 49}, at::kLong), in[0].device()));
       }},
      {"permute rows",
       {{4, 96}},
       [](const Tensors& in) {
         const at::Device device = in[0].device();
         return permute_rows(in[0],
                             {.row_at = to_device(at::tensor({2, 0, 3, 1}, at::kLong), device),
                              .place_of = to_device(at::tensor({1, 3, 0, 2}, at::kLong), device)});
       }},
  };
}

/// The result of an op, then the gradients of its inputs, in f32 on the CPU.
Tensors run(const Case& of, const Tensors& inputs, const at::TensorOptions& options) {
  Tensors placed;
  for (const at::Tensor& input : inputs)
    placed.push_back(input.to(options).detach().requires_grad_());
  const at::Tensor out = of.op(placed);
  at::manual_seed(9);
  const at::Tensor gradient = at::randn(out.sizes()).to(options.dtype(out.dtype()));
  torch::autograd::backward({out}, {gradient});
  Tensors results{out.detach().to(at::kCPU, at::kFloat)};
  for (const at::Tensor& input : placed) results.push_back(input.grad().to(at::kCPU, at::kFloat));
  return results;
}

double deviation(const at::Tensor& found, const at::Tensor& expected) {
  return (found - expected).norm().item<double>() / expected.norm().item<double>();
}

class OnCuda : public testing::TestWithParam<at::ScalarType> {
 protected:
  void SetUp() override {
    if (mesh::list_devices().accelerators.empty()) GTEST_SKIP() << "no CUDA device";
  }
};
INSTANTIATE_TEST_SUITE_P(Ops, OnCuda, testing::Values(at::kFloat, at::kBFloat16));

TEST_P(OnCuda, OpsGiveWhatTheyGiveOnTheCpu) {
  const bool is_f32 = GetParam() == at::kFloat;
  const double limit = is_f32 ? 1e-5 : 1e-2;
  for (const Case& each : list_cases()) {
    at::manual_seed(5);
    Tensors inputs;
    for (const std::vector<std::int64_t>& shape : each.shapes)
      inputs.push_back(at::randn(shape).to(GetParam()).to(at::kFloat));  // both start the same
    const Tensors expected = run(each, inputs, at::TensorOptions(at::kCPU).dtype(at::kFloat));
    const Tensors found =
        run(each, inputs, at::TensorOptions(at::Device(at::kCUDA, 0)).dtype(GetParam()));
    for (std::size_t i = 0; i < found.size(); ++i) {
      const double off = deviation(found[i], expected[i]);
      std::printf("%-28s %-10s %s %.1e\n", each.name.c_str(), i == 0 ? "result" : "gradient",
                  is_f32 ? "f32" : "bf16", off);
      EXPECT_LE(off, limit) << each.name << ", " << (i == 0 ? "result" : "gradient");
    }
  }
}

TEST_P(OnCuda, BlocksOfAttentionJoinToTheWhole) {
  const auto options = at::TensorOptions(at::Device(at::kCUDA, 0)).dtype(GetParam());
  at::manual_seed(5);
  const at::Tensor queries = at::randn({2, 4, 40, 64}).to(options);
  const at::Tensor keys = at::randn({2, 2, 70, 64}).to(options);
  const at::Tensor values = at::randn({2, 2, 70, 64}).to(options);
  const BlockResult whole = attend_block(queries, keys, values, Mask::kNone);
  const auto part = [&](std::int64_t first, std::int64_t count) {
    return attend_block(queries, keys.narrow(2, first, count), values.narrow(2, first, count),
                        Mask::kNone);
  };
  const BlockResult joined = join_blocks(part(0, 33), part(33, 37));
  const double limit = GetParam() == at::kFloat ? 1e-5 : 1e-2;
  EXPECT_LE(deviation(joined.out.to(at::kFloat), whole.out.to(at::kFloat)), limit);

  const at::Tensor gradient = at::randn(whole.out.sizes()).to(options);
  const BlockGradients all =
      attend_block_backward(gradient, queries, keys, values, whole, Mask::kNone);
  const BlockGradients front = attend_block_backward(gradient, queries, keys.narrow(2, 0, 33),
                                                     values.narrow(2, 0, 33), whole, Mask::kNone);
  EXPECT_LE(deviation(front.keys.to(at::kFloat), all.keys.narrow(2, 0, 33).to(at::kFloat)), limit);
}

}  // namespace
}  // namespace tributary::ops
