#include "ops/select_rows.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

namespace tributary::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Variable;
using torch::autograd::variable_list;

struct SelectRows : torch::autograd::Function<SelectRows> {
  static Variable forward(AutogradContext* context, const Variable& x, const Variable& chosen) {
    context->save_for_backward({chosen});
    context->saved_data["shape"] = x.sizes().vec();
    return x.index_select(0, chosen);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    at::Tensor gradient =
        at::zeros(context->saved_data["shape"].toIntVector(), gradients[0].options());
    gradient.index_copy_(0, context->get_saved_variables()[0], gradients[0]);
    return {gradient, Variable()};
  }
};

}  // namespace

at::Tensor select_rows(const at::Tensor& x, const at::Tensor& chosen) {
  return SelectRows::apply(x, chosen);
}

}  // namespace tributary::ops
