#include <algorithm>

#include <ATen/ATen.h>

#include "core/error.h"
#include "model/model.h"
#include "ops/select_rows.h"
#include "parallel/layer_boundary.h"
#include "parallel/token_exchange.h"

namespace tributary::model {
namespace {

at::Tensor row_losses(Model& model, const at::Tensor& hidden, const at::Tensor& targets,
                      std::int64_t most_logits) {
  const std::int64_t rows = hidden.size(0);
  const parallel::LanguageHead& head = model.language_head();
  const std::int64_t columns = model.config().backbone.vocab / model.layout().tp().size();
  const auto losses_of = [&](parallel::Keep keep, std::int64_t first, std::int64_t count) {
    return parallel::run_layer(head.unit(), keep, hidden.narrow(0, first, count),
                               [&head, wanted = targets.narrow(0, first, count)](
                                   const at::Tensor& some) { return head.losses(some, wanted); });
  };
  if (rows * columns <= most_logits) return losses_of(parallel::Keep::kActivations, 0, rows);
  const std::int64_t chunk = std::max<std::int64_t>(1, most_logits / columns);
  const parallel::Whole whole(head.unit());  // over all chunks
  std::vector<at::Tensor> losses;
  for (std::int64_t first = 0; first < rows; first += chunk)
    losses.push_back(losses_of(parallel::Keep::kInput, first, std::min(chunk, rows - first)));
  return at::cat(losses, 0);
}

}  // namespace

LossSum sum_loss(Model& model, const at::Tensor& hidden, const at::Tensor& targets,
                 std::int64_t most_logits) {
  const at::Tensor all = parallel::all_tokens(hidden, model.layout());
  TRIB_CHECK(targets.dim() == 1 && targets.size(0) <= all.size(0) &&
                 (targets.size(0) == all.size(0) || model.layout().splits_tokens()),
             .what = "model: one target a token",
             .found = tributary::str("hidden ", all.sizes(), ", targets ", targets.sizes()));
  const at::Tensor rows = at::nonzero(targets >= 0).squeeze(1);
  const at::Tensor losses =
      row_losses(model, ops::select_rows(all, rows), targets.index_select(0, rows), most_logits);
  return {.sum = losses.sum(), .rows = losses.detach(), .targets = rows.size(0)};
}

}  // namespace tributary::model
