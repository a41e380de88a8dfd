#include "parallel/layer_boundary.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

namespace tributary::parallel {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Variable;
using torch::autograd::variable_list;

/// A layer between its forward and its backward.
struct Layer : torch::CustomClassHolder {
  Layer(Unit& of, Keep what, LayerBody run) : unit(of), keep(what), body(std::move(run)) {}
  Unit& unit;
  Keep keep;
  LayerBody body;
  at::Tensor input;   // a leaf of the layer's own graph
  at::Tensor output;  // with that graph; undefined when it is made again

  /// Makes the layer's own graph.
  void run(const at::Tensor& hidden, bool needs_gradient) {
    const at::AutoGradMode record(true);
    input = hidden.detach().requires_grad_(needs_gradient);
    output = body(input);
  }
};

struct Boundary : torch::autograd::Function<Boundary> {
  /// `anchor` asks for a gradient where `hidden` does not, yet the layer's parameters do.
  static Variable forward(AutogradContext* context, const Variable& hidden,
                          const Variable& /*anchor*/, const c10::intrusive_ptr<Layer>& layer) {
    const bool needs_gradient = hidden.requires_grad();
    context->saved_data["layer"] = c10::IValue::make_capsule(layer);
    context->saved_data["needs_gradient"] = needs_gradient;
    layer->unit.expect_backward();
    const Whole whole(layer->unit);
    layer->unit.prefetch_next();
    if (layer->keep == Keep::kInput) {
      context->save_for_backward({hidden});
      return layer->body(hidden);
    }
    layer->run(hidden, needs_gradient);
    return layer->output.detach();
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto layer =
        c10::static_intrusive_pointer_cast<Layer>(context->saved_data["layer"].toCapsule());
    layer->unit.begin_backward();
    layer->unit.prefetch_previous();
    if (layer->keep == Keep::kInput)
      layer->run(context->get_saved_variables()[0], context->saved_data["needs_gradient"].toBool());
    if (layer->output.requires_grad()) torch::autograd::backward({layer->output}, {gradients[0]});
    layer->output = at::Tensor();
    layer->unit.end_backward();
    return {layer->input.grad(), Variable(), Variable()};
  }
};

}  // namespace

at::Tensor run_layer(Unit& unit, Keep keep, const at::Tensor& hidden, LayerBody body) {
  const bool has_backward =
      at::GradMode::is_enabled() && (unit.trainable() || hidden.requires_grad());
  if (!has_backward) {
    const Whole whole(unit);
    unit.prefetch_next();
    return body(hidden);
  }
  if (keep == Keep::kActivations && unit.is_direct()) return body(hidden);
  const at::Tensor anchor = at::empty({0}, hidden.options().dtype(at::kFloat)).requires_grad_();
  return Boundary::apply(hidden, anchor, c10::make_intrusive<Layer>(unit, keep, std::move(body)));
}

}  // namespace tributary::parallel
