#include "ops/swiglu.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include "core/error.h"

namespace tributary::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Variable;
using torch::autograd::variable_list;

struct Swiglu : torch::autograd::Function<Swiglu> {
  static Variable forward(AutogradContext* context, const Variable& gate_up) {
    context->save_for_backward({gate_up});
    const std::int64_t width = gate_up.size(-1) / 2;
    return at::silu(gate_up.narrow(-1, 0, width)).mul_(gate_up.narrow(-1, width, width));
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const at::Tensor gate_up = context->get_saved_variables()[0];
    const std::int64_t width = gate_up.size(-1) / 2;
    const at::Tensor gate = gate_up.narrow(-1, 0, width);
    const at::Tensor up = gate_up.narrow(-1, width, width);
    at::Tensor result = at::empty_like(gate_up);
    at::Tensor gate_gradient = result.narrow(-1, 0, width);
    at::Tensor up_gradient = result.narrow(-1, width, width);
    at::silu_backward_out(gate_gradient, gradients[0] * up, gate);
    at::mul_out(up_gradient, gradients[0], at::silu(gate));
    return {result};
  }
};

}  // namespace

at::Tensor swiglu(const at::Tensor& gate_up) {
  TRIB_CHECK(gate_up.dim() > 0 && gate_up.size(-1) % 2 == 0,
             .what = "ops: swiglu needs rows of two equal halves",
             .found = tributary::str("shape ", gate_up.sizes()));
  return Swiglu::apply(gate_up);
}

}  // namespace tributary::ops
