#include "parallel/weight_queue.h"

#include <utility>

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include "core/error.h"
#include "ops/linear.h"
#include "parallel/unit_chain.h"

namespace tributary::parallel {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Variable;
using torch::autograd::variable_list;

/// A call of the map, which decides in backward whether its weight gradient waits.
struct Map : torch::CustomClassHolder {
  Map(at::Tensor weights, at::Tensor biases, std::shared_ptr<UnitChain> of)
      : weight(std::move(weights)), bias(std::move(biases)), chain(std::move(of)) {}
  at::Tensor weight;
  at::Tensor bias;  // or undefined
  std::shared_ptr<UnitChain> chain;

  void add_gradients(const at::Tensor& x, const at::Tensor& gradient) const {
    weight.grad().add_(gradient.t().mm(x));
    if (bias.defined()) bias.grad().add_(gradient.sum(0));
  }
};

struct SplitLinear : torch::autograd::Function<SplitLinear> {
  /// `weight` is that of the map, so that the node exists where it alone needs a gradient.
  static Variable forward(AutogradContext* context, const Variable& x, const Variable& /*weight*/,
                          const c10::intrusive_ptr<Map>& map) {
    context->save_for_backward({x});
    context->saved_data["map"] = c10::IValue::make_capsule(map);
    context->saved_data["needs_x"] = x.requires_grad();
    return ops::linear(x, map->weight, map->bias);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const at::Tensor x = context->get_saved_variables()[0];
    const at::Tensor& gradient = gradients[0];
    const auto map =
        c10::static_intrusive_pointer_cast<Map>(context->saved_data["map"].toCapsule());
    at::Tensor of_x;
    if (context->saved_data["needs_x"].toBool()) of_x = gradient.mm(map->weight);
    if (map->weight.requires_grad()) {
      if (WeightQueue* queue = map->chain->put_off(); queue != nullptr)
        queue->push([map, x, gradient] { map->add_gradients(x, gradient); });
      else
        map->add_gradients(x, gradient);
    }
    return {of_x, Variable(), Variable()};
  }
};

}  // namespace

void WeightQueue::run() {
  const at::NoGradGuard no_grad;
  for (const std::function<void()>& work : std::exchange(work_, {})) work();
}

PutOff::PutOff(const Layout& layout, WeightQueue& queue) : chain_(layout.chain.get()) {
  TRIB_CHECK(chain_ != nullptr && chain_->put_off() == nullptr,
             .what = "parallel: weight gradients cannot be put off twice, or without a chain");
  chain_->set_put_off(&queue);
}

PutOff::~PutOff() { chain_->set_put_off(nullptr); }

at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                  const Layout& layout) {
  const bool splits = layout.chain && layout.chain->options().splits_backward;
  if (!splits || !at::GradMode::is_enabled()) return ops::linear(x, weight, bias);
  return SplitLinear::apply(x, weight, c10::make_intrusive<Map>(weight, bias, layout.chain));
}

}  // namespace tributary::parallel
