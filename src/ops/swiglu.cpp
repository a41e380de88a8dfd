#include "ops/swiglu.h"

#include <vector>

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

constexpr std::int64_t kGateRowsOfThread = 64;  // fewer are not worth a thread

bool has_kernel(const at::Tensor& gate_up) {
  return gate_up.is_cpu() && gate_up.scalar_type() == at::kFloat;
}

at::Tensor gate(const at::Tensor& gate_up) {
  const std::int64_t width = gate_up.size(-1) / 2;
  return at::silu(gate_up.narrow(-1, 0, width)).mul_(gate_up.narrow(-1, width, width));
}

at::Tensor gate_by_kernel(const at::Tensor& gate_up) {
  const std::int64_t width = gate_up.size(-1) / 2;
  std::vector<std::int64_t> sizes = gate_up.sizes().vec();
  sizes.back() = width;
  at::Tensor result = at::empty(sizes, gate_up.options());
  const float* in = gate_up.const_data_ptr<float>();
  float* out = result.mutable_data_ptr<float>();
  at::parallel_for(0, width == 0 ? 0 : result.numel() / width, kGateRowsOfThread,
                   [&](std::int64_t first, std::int64_t last) {
                     cpu::swiglu({first, last}, width, in, out);
                   });
  return result;
}

at::Tensor differentiate(const at::Tensor& gradient, const at::Tensor& gate_up) {
  const std::int64_t width = gate_up.size(-1) / 2;
  const at::Tensor gates = gate_up.narrow(-1, 0, width);
  at::Tensor result = at::empty_like(gate_up);
  at::Tensor gate_gradient = result.narrow(-1, 0, width);
  at::Tensor up_gradient = result.narrow(-1, width, width);
  at::silu_backward_out(gate_gradient, gradient * gate_up.narrow(-1, width, width), gates);
  at::mul_out(up_gradient, gradient, at::silu(gates));
  return result;
}

at::Tensor differentiate_by_kernel(const at::Tensor& given, const at::Tensor& gate_up) {
  const std::int64_t width = gate_up.size(-1) / 2;
  const at::Tensor gradient = given.contiguous();
  at::Tensor result = at::empty(gate_up.sizes(), gate_up.options());
  const float* gradients = gradient.const_data_ptr<float>();
  const float* in = gate_up.const_data_ptr<float>();
  float* out = result.mutable_data_ptr<float>();
  at::parallel_for(0, width == 0 ? 0 : gradient.numel() / width, kGateRowsOfThread,
                   [&](std::int64_t first, std::int64_t last) {
                     cpu::swiglu_backward({first, last}, width, gradients, in, out);
                   });
  return result;
}

struct Swiglu : torch::autograd::Function<Swiglu> {
  static Variable forward(AutogradContext* context, const Variable& given) {
    const at::Tensor gate_up = has_kernel(given) ? given.contiguous() : given;
    context->save_for_backward({gate_up});
    return has_kernel(gate_up) ? gate_by_kernel(gate_up) : gate(gate_up);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const at::Tensor gate_up = context->get_saved_variables()[0];
    return {has_kernel(gate_up) ? differentiate_by_kernel(gradients[0], gate_up)
                                : differentiate(gradients[0], gate_up)};
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
