#include "parallel/layer_boundary.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include "parallel/pass_observer.h"
#include "parallel/unit_chain.h"
#include "parallel/weight_queue.h"

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

bool runs_again(Keep keep) { return keep == Keep::kInput || keep == Keep::kInputOnHost; }

/// The queue in which weight gradients of the unit wait; null when they do not.
WeightQueue* put_off(const Unit& unit) {
  return unit.layout().chain ? unit.layout().chain->put_off() : nullptr;
}

PassObserver* observer_of(const Unit& unit) {
  return unit.layout().chain ? unit.layout().chain->observer() : nullptr;
}

/// Tells the observer that a forward has ended, and later of the backward passes of the layer.
at::Tensor observed(Unit& unit, at::Tensor output) {
  PassObserver* observer = observer_of(unit);
  if (observer == nullptr) return output;
  observer->on_pass(unit, LayerPass::kForward);
  if (!output.requires_grad()) return output;
  output.register_hook([&unit, observer](const at::Tensor& /*gradient*/) {
    observer->on_pass(unit, LayerPass::kBackward);
    if (WeightQueue* queue = put_off(unit); queue != nullptr)
      queue->push([&unit, observer] { observer->on_pass(unit, LayerPass::kWeights); });
  });
  return output;
}

/// The input as it waits for backward; a copy to the host is made in the order of the stream.
at::Tensor rest(const at::Tensor& input, Keep keep) {
  if (keep != Keep::kInputOnHost || input.is_cpu()) return input;
  const at::Tensor host = at::empty(
      input.sizes(), input.options().device(at::kCPU).pinned_memory(/*pinned_memory=*/true));
  host.copy_(input.detach(), /*non_blocking=*/true);
  return host;
}

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
    if (runs_again(layer->keep)) {
      context->save_for_backward({rest(hidden, layer->keep)});
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
    if (runs_again(layer->keep)) {
      PassObserver* observer = observer_of(layer->unit);
      if (observer != nullptr) observer->on_pass(layer->unit, LayerPass::kRecompute);
      layer->run(context->get_saved_variables()[0].to(gradients[0].device(), /*non_blocking=*/true),
                 context->saved_data["needs_gradient"].toBool());
      if (observer != nullptr) observer->on_pass(layer->unit, LayerPass::kBackward);
    }
    if (layer->output.requires_grad()) torch::autograd::backward({layer->output}, {gradients[0]});
    // The node lives as long as the loss does; its tensors are freed now.
    const at::Tensor gradient = layer->input.grad();
    layer->input = layer->output = at::Tensor();
    layer->body = nullptr;
    Unit& unit = layer->unit;
    if (WeightQueue* queue = put_off(unit); queue != nullptr) {
      unit.release();  // weight gradients need no values
      queue->push([&unit] { unit.end_gradient(); });
    } else {
      unit.end_backward();
    }
    return {gradient, Variable(), Variable()};
  }
};

/// A part of a layer that runs again, in a graph of its own.
struct Part : torch::CustomClassHolder {
  explicit Part(LayerBody run) : body(std::move(run)) {}
  LayerBody body;
};

struct Rerun : torch::autograd::Function<Rerun> {
  static Variable forward(AutogradContext* context, const Variable& x, const Variable& /*anchor*/,
                          const c10::intrusive_ptr<Part>& part) {
    context->saved_data["part"] = c10::IValue::make_capsule(part);
    context->saved_data["needs_gradient"] = x.requires_grad();
    context->save_for_backward({x});
    return part->body(x);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto part =
        c10::static_intrusive_pointer_cast<Part>(context->saved_data["part"].toCapsule());
    const at::Tensor input = context->get_saved_variables()[0].detach().requires_grad_(
        context->saved_data["needs_gradient"].toBool());
    at::Tensor output;
    {
      const at::AutoGradMode record(true);
      output = part->body(input);
    }
    if (output.requires_grad()) torch::autograd::backward({output}, {gradients[0]});
    part->body = nullptr;
    return {input.grad(), Variable(), Variable()};
  }
};

/// Asks for a gradient where the input does not, yet parameters do.
at::Tensor anchor_like(const at::Tensor& input) {
  return at::empty({0}, input.options().dtype(at::kFloat)).requires_grad_();
}

}  // namespace

at::Tensor run_twice(const Unit& unit, const at::Tensor& x, LayerBody body) {
  const bool has_backward =
      at::GradMode::is_enabled() && (unit.needs_backward() || x.requires_grad());
  if (!has_backward) return body(x);
  return Rerun::apply(x, anchor_like(x), c10::make_intrusive<Part>(std::move(body)));
}

at::Tensor run_part(const Unit& unit, Keep keep, LayerPart part, const at::Tensor& x,
                    LayerBody body) {
  const Keep the_other = part == LayerPart::kMlp ? Keep::kAttention : Keep::kMlp;
  return keep == the_other ? run_twice(unit, x, std::move(body)) : body(x);
}

at::Tensor run_layer(Unit& unit, Keep keep, const at::Tensor& hidden, LayerBody body) {
  const bool has_backward =
      at::GradMode::is_enabled() && (unit.needs_backward() || hidden.requires_grad());
  if (!has_backward) {
    const Whole whole(unit);
    unit.prefetch_next();
    return observed(unit, body(hidden));
  }
  if (!runs_again(keep) && unit.is_direct()) return observed(unit, body(hidden));
  return observed(unit, Boundary::apply(hidden, anchor_like(hidden),
                                        c10::make_intrusive<Layer>(unit, keep, std::move(body))));
}

}  // namespace tributary::parallel
