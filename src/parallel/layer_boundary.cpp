#include "parallel/layer_boundary.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

namespace tributary::parallel {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Variable;
using torch::autograd::variable_list;

struct KeptBody : torch::CustomClassHolder {
  explicit KeptBody(LayerBody body) : call(std::move(body)) {}
  LayerBody call;
};

struct Recompute : torch::autograd::Function<Recompute> {
  static Variable forward(AutogradContext* context, const Variable& hidden,
                          const c10::intrusive_ptr<KeptBody>& body) {
    context->save_for_backward({hidden});
    context->saved_data["body"] = c10::IValue::make_capsule(body);
    const at::NoGradGuard keep_nothing;
    return body->call(hidden);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto body =
        c10::static_intrusive_pointer_cast<KeptBody>(context->saved_data["body"].toCapsule());
    const at::Tensor hidden = context->get_saved_variables()[0].detach().requires_grad_();
    const at::AutoGradMode record(true);
    const at::Tensor out = body->call(hidden);
    torch::autograd::backward({out}, {gradients[0]});
    return {hidden.grad(), Variable()};
  }
};

}  // namespace

at::Tensor run_layer(const Unit& unit, Keep keep, const at::Tensor& hidden, LayerBody body) {
  const bool has_backward =
      at::GradMode::is_enabled() && (unit.trainable() || hidden.requires_grad());
  if (keep == Keep::kActivations || !has_backward) return body(hidden);
  // Below a frozen embedding the input asks for no gradient, yet the layer's parameters do.
  const at::Tensor source = hidden.requires_grad() ? hidden : hidden.detach().requires_grad_();
  return Recompute::apply(source, c10::make_intrusive<KeptBody>(std::move(body)));
}

}  // namespace tributary::parallel
