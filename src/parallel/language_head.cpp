#include "parallel/language_head.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include "ops/cross_entropy.h"
#include "ops/linear.h"
#include "parallel/split.h"

namespace tributary::parallel {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Variable;
using torch::autograd::variable_list;

struct Vocabulary : torch::CustomClassHolder {
  Vocabulary(const mesh::Group& ranks, Range rows) : group(ranks), own(rows) {}
  const mesh::Group& group;
  Range own;  // of the vocabulary
};

/// Cross entropy over logits whose columns are split over the ranks.
struct SplitCrossEntropy : torch::autograd::Function<SplitCrossEntropy> {
  static Variable forward(AutogradContext* context, const Variable& logits, const Variable& targets,
                          const c10::intrusive_ptr<Vocabulary>& vocabulary) {
    const mesh::Group& group = vocabulary->group;
    const Range own = vocabulary->own;
    const at::Tensor scores = logits.to(at::kFloat);
    const at::Tensor max =
        own.count > 0 ? scores.amax(1) : at::full({logits.size(0)}, -1e30, scores.options());
    group.all_reduce(max, mesh::Reduce::kMax).wait();
    const at::Tensor exponentials = (scores - max.unsqueeze(1)).exp_();
    const at::Tensor local = targets - own.first;
    const at::Tensor is_own = local.ge(0).logical_and(local.lt(own.count));
    const at::Tensor column = local.masked_fill(is_own.logical_not(), 0);
    // Sum of exponentials and the target's score in one exchange.
    const at::Tensor sums = at::zeros({2, logits.size(0)}, scores.options());
    if (own.count > 0) {
      sums[0].copy_(exponentials.sum(1));
      sums[1].copy_(scores.gather(1, column.unsqueeze(1)).squeeze(1).mul(is_own));
    }
    group.all_reduce(sums).wait();
    const at::Tensor probabilities = exponentials / sums[0].unsqueeze(1);
    context->save_for_backward({probabilities, column, is_own});
    context->saved_data["dtype"] = static_cast<std::int64_t>(logits.scalar_type());
    return sums[0].log() + max - sums[1];
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    at::Tensor gradient = saved[0].clone();
    if (gradient.size(1) > 0)
      gradient.scatter_add_(1, saved[1].unsqueeze(1),
                            saved[2].to(gradient.scalar_type()).neg().unsqueeze(1));
    gradient.mul_(gradients[0].unsqueeze(1));
    const auto dtype = static_cast<at::ScalarType>(context->saved_data["dtype"].toInt());
    return {gradient.to(dtype), Variable(), Variable()};
  }
};

}  // namespace

LanguageHead::LanguageHead(Unit& unit, const std::string& name, std::int64_t vocab,
                           std::int64_t width, double deviation)
    : unit_(&unit),
      weight_(&unit.declare(name + ".weight", {vocab, width},
                            {.kind = Initializer::Kind::kNormal, .deviation = deviation},
                            split_evenly(unit.layout(), /*dim=*/0, vocab))) {}

LanguageHead::LanguageHead(Unit& unit, const Embedding& tied)
    : unit_(&unit), weight_(&tied.weight()) {}

at::Tensor LanguageHead::operator()(const at::Tensor& hidden) const {
  const at::Tensor logits = ops::linear(hidden, weight_->value, {});
  const mesh::Group& tp = unit_->layout().tp();
  if (tp.is_single()) return logits;
  const at::Tensor by_rank =
      at::empty({tp.size(), logits.size(0), logits.size(1)}, logits.options());
  tp.all_gather(logits.detach().contiguous(), by_rank).wait();
  return by_rank.transpose(0, 1).reshape({logits.size(0), -1}).narrow(1, 0, weight_->shape[0]);
}

at::Tensor LanguageHead::losses(const at::Tensor& hidden, const at::Tensor& targets) const {
  const mesh::Group& tp = unit_->layout().tp();
  if (tp.is_single()) return ops::cross_entropy(ops::linear(hidden, weight_->value, {}), targets);
  const Range own = weight_->split.ranges.front();
  const at::Tensor logits = ops::linear(hidden, weight_->value.narrow(0, 0, own.count), {});
  return SplitCrossEntropy::apply(logits, targets, c10::make_intrusive<Vocabulary>(tp, own));
}

}  // namespace tributary::parallel
