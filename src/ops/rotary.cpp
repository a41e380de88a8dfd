#include "ops/rotary.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include "core/error.h"

namespace tributary::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Variable;
using torch::autograd::variable_list;

/// Rotates by the angle of (cosine, sine); the inverse takes -sine.
at::Tensor rotate(const at::Tensor& heads, const at::Tensor& cosine, const at::Tensor& sine,
                  std::int64_t rotated) {
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
    return rotate(heads, cosine, sine, rotated);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const std::int64_t rotated = context->saved_data["rotated"].toInt();
    return {rotate(gradients[0], saved[0], saved[1].neg(), rotated), Variable(), Variable(),
            Variable()};
  }
};

}  // namespace

RotaryTable make_rotary_table(const at::Tensor& angles, at::ScalarType dtype) {
  return {.cosine = angles.cos().to(dtype), .sine = angles.sin().to(dtype)};
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
