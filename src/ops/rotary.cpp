#include "ops/rotary.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include "core/error.h"
#include "ops/cpu/row_kernels.h"

namespace tributary::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Variable;
using torch::autograd::variable_list;

at::Tensor rotate_by_kernel(const at::Tensor& given, const at::Tensor& cosine,
                            const at::Tensor& sine, std::int64_t rotated, float direction) {
  constexpr std::int64_t kTokensOfThread = 64;  // fewer are not worth a thread
  const at::Tensor heads = given.contiguous();
  at::Tensor result = at::empty(heads.sizes(), heads.options());
  const float* in = heads.const_data_ptr<float>();
  const float* cosines = cosine.const_data_ptr<float>();
  const float* sines = sine.const_data_ptr<float>();
  float* out = result.mutable_data_ptr<float>();
  const cpu::HeadShape shape{heads.size(1), rotated, cosine.size(1)};
  at::parallel_for(0, heads.size(0), kTokensOfThread, [&](std::int64_t first, std::int64_t last) {
    cpu::rotate_heads({first, last}, shape, direction, in, cosines, sines, out);
  });
  return result;
}

/// Rotates by the angles (direction 1) or back (-1).
at::Tensor rotate(const at::Tensor& heads, const at::Tensor& cosine, const at::Tensor& all_sine,
                  std::int64_t rotated, float direction) {
  if (heads.is_cpu() && heads.scalar_type() == at::kFloat && cosine.scalar_type() == at::kFloat)
    return rotate_by_kernel(heads, cosine, all_sine, rotated, direction);
  const at::Tensor sine = all_sine * direction;
  at::Tensor result = at::empty(heads.sizes(), heads.options());
  const std::int64_t half = cosine.size(1);
  const at::Tensor source = heads.narrow(1, 0, rotated).to(cosine.scalar_type());
  const at::Tensor first = source.narrow(2, 0, half);
  const at::Tensor second = source.narrow(2, half, half);
  const at::Tensor wide_cosine = cosine.unsqueeze(1);
  const at::Tensor wide_sine = sine.unsqueeze(1);
  const at::Tensor target = result.narrow(1, 0, rotated);
  target.narrow(2, 0, half).copy_(first * wide_cosine - second * wide_sine);
  target.narrow(2, half, half).copy_(second * wide_cosine + first * wide_sine);
  if (const std::int64_t rest = heads.size(1) - rotated; rest > 0)
    result.narrow(1, rotated, rest).copy_(heads.narrow(1, rotated, rest));
  return result;
}

struct RotateHeads : torch::autograd::Function<RotateHeads> {
  static Variable forward(AutogradContext* context, const Variable& heads, const Variable& cosine,
                          const Variable& sine, std::int64_t rotated) {
    context->save_for_backward({cosine, sine});
    context->saved_data["rotated"] = rotated;
    return rotate(heads, cosine, sine, rotated, 1);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const std::int64_t rotated = context->saved_data["rotated"].toInt();
    return {rotate(gradients[0], saved[0], saved[1], rotated, -1), Variable(), Variable(),
            Variable()};
  }
};

}  // namespace

RotaryTable make_rotary_table(const at::Tensor& angles, at::ScalarType dtype) {
  return {.cosine = angles.cos().to(dtype).contiguous(),
          .sine = angles.sin().to(dtype).contiguous()};
}

at::Tensor rotate_heads(const at::Tensor& heads, const RotaryTable& table, std::int64_t rotated) {
  TRIB_CHECK(heads.dim() == 3 && heads.size(2) == 2 * table.cosine.size(1) &&
                 heads.size(0) == table.cosine.size(0) && rotated <= heads.size(1),
             .what = "ops: rotary table does not fit the heads",
             .found = tributary::str("heads ", heads.sizes(), ", table ", table.cosine.sizes(),
                                     ", ", rotated, " rotated"),
             .expected = "heads [tokens, any, head_width], table [tokens, head_width / 2]");
  return RotateHeads::apply(heads, table.cosine, table.sine, rotated);
}

}  // namespace tributary::ops
