#include "ops/rms_norm.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

namespace tributary::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Variable;
using torch::autograd::variable_list;

at::ScalarType wide_type(const at::Tensor& x) {
  return x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

struct RmsNorm : torch::autograd::Function<RmsNorm> {
  static Variable forward(AutogradContext* context, const Variable& x, const Variable& weight,
                          double epsilon) {
    const at::Tensor wide = x.to(wide_type(x));
    const double width = static_cast<double>(x.size(-1));
    const at::Tensor inverse_rms = at::linalg_vector_norm(wide, 2, at::IntArrayRef{-1}, true)
                                       .square_()
                                       .div_(width)
                                       .add_(epsilon)
                                       .rsqrt_();
    context->save_for_backward({x, weight, inverse_rms});
    return at::mul(at::mul(wide, inverse_rms).to(x.scalar_type()), weight);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor& x = saved[0];
    const at::Tensor& weight = saved[1];
    const at::Tensor& inverse_rms = saved[2];
    const at::Tensor gradient = gradients[0].to(wide_type(x));
    const at::Tensor normal = x.to(wide_type(x)) * inverse_rms;

    at::Tensor weight_gradient;
    if (context->needs_input_grad(1)) {
      weight_gradient = at::mul(gradient, normal)
                            .reshape({-1, x.size(-1)})
                            .sum(at::IntArrayRef{0})
                            .to(weight.scalar_type());
    }
    at::Tensor x_gradient;
    if (context->needs_input_grad(0)) {
      const at::Tensor scaled = gradient * weight;
      const at::Tensor along = at::mul(scaled, normal).mean(at::IntArrayRef{-1}, true);
      x_gradient = scaled.addcmul_(normal, along, -1).mul_(inverse_rms).to(x.scalar_type());
    }
    return {x_gradient, weight_gradient, Variable()};
  }
};

}  // namespace

at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double epsilon) {
  return RmsNorm::apply(x, weight, epsilon);
}

}  // namespace tributary::ops
