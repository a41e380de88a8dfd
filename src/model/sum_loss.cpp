#include <algorithm>

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include "core/error.h"
#include "model/model.h"
#include "ops/cross_entropy.h"
#include "parallel/layer_boundary.h"

namespace tributary::model {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Variable;
using torch::autograd::variable_list;

/// Selects rows that are all different; its backward copies, where index_select's must add.
struct SelectRows : torch::autograd::Function<SelectRows> {
  static Variable forward(AutogradContext* context, const Variable& hidden, const Variable& rows) {
    context->save_for_backward({rows});
    context->saved_data["tokens"] = hidden.size(0);
    return hidden.index_select(0, rows);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const at::Tensor& selected = gradients[0];
    at::Tensor hidden =
        at::zeros({context->saved_data["tokens"].toInt(), selected.size(1)}, selected.options());
    hidden.index_copy_(0, context->get_saved_variables()[0], selected);
    return {hidden, Variable()};
  }
};

at::Tensor row_losses(Model& model, const at::Tensor& hidden, const at::Tensor& targets,
                      std::int64_t most_logits) {
  const std::int64_t rows = hidden.size(0);
  const std::int64_t vocab = model.config().backbone.vocab;
  if (rows * vocab <= most_logits) return ops::cross_entropy(model.head(hidden), targets);
  const std::int64_t chunk = std::max<std::int64_t>(1, most_logits / vocab);
  std::vector<at::Tensor> losses;
  for (std::int64_t first = 0; first < rows; first += chunk) {
    const std::int64_t count = std::min(chunk, rows - first);
    const at::Tensor wanted = targets.narrow(0, first, count);
    losses.push_back(parallel::run_layer(*model.units().back(), parallel::Keep::kInput,
                                         hidden.narrow(0, first, count),
                                         [&model, wanted](const at::Tensor& some) {
                                           return ops::cross_entropy(model.head(some), wanted);
                                         }));
  }
  return at::cat(losses, 0);
}

}  // namespace

LossSum sum_loss(Model& model, const at::Tensor& hidden, const at::Tensor& targets,
                 std::int64_t most_logits) {
  TRIB_CHECK(targets.dim() == 1 && targets.size(0) == hidden.size(0),
             .what = "model: one target a token",
             .found = tributary::str("hidden ", hidden.sizes(), ", targets ", targets.sizes()));
  const at::Tensor rows = at::nonzero(targets >= 0).squeeze(1);
  const at::Tensor losses = row_losses(model, SelectRows::apply(hidden, rows),
                                       targets.index_select(0, rows), most_logits);
  return {.sum = losses.sum(), .rows = losses.detach(), .targets = rows.size(0)};
}

}  // namespace tributary::model
