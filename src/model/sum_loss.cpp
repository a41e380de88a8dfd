#include <algorithm>

#include <ATen/ATen.h>

#include "core/error.h"
#include "model/model.h"
#include "ops/select_rows.h"
#include "ops/to_device.h"
#include "parallel/layer_boundary.h"
#include "parallel/sequence/token_split.h"
#include "parallel/token_exchange.h"

namespace tributary::model {
namespace {

/// The losses of rows whose weight is whole, in chunks that make their logits again in backward.
at::Tensor row_losses(const parallel::LanguageHead& head, const at::Tensor& rows,
                      const at::Tensor& targets, std::int64_t max_rows) {
  const std::int64_t count = rows.size(0);
  if (count <= max_rows) return head.losses(rows, targets);
  std::vector<at::Tensor> losses;
  for (std::int64_t first = 0; first < count; first += max_rows) {
    const std::int64_t some = std::min(max_rows, count - first);
    losses.push_back(parallel::run_twice(
        head.unit(), rows.narrow(0, first, some),
        [&head, wanted = targets.narrow(0, first, some)](const at::Tensor& chunk) {
          return head.losses(chunk, wanted);
        }));
  }
  return at::cat(losses, 0);
}

/// The losses of all targets of the pack, of which this rank has computed some.
at::Tensor complete_rows(const TargetLosses& losses, std::int64_t targets,
                         const mesh::Group& sequence) {
  const at::Tensor own = losses.own.detach();
  const at::Tensor rows = at::zeros({targets}, own.options());
  rows.index_copy_(0, ops::to_device(losses.places, own.device()), own);
  sequence.all_reduce(rows).wait();
  return rows;
}

}  // namespace

TargetLosses target_losses(Model& model, const at::Tensor& hidden, const at::Tensor& targets,
                           std::span<const std::int32_t> cu_seqlens, std::int64_t max_logits) {
  const parallel::TokenSplit split(cu_seqlens, model.layout());
  const at::Tensor wanted = split.keep(targets, /*padding=*/-100);
  TRIB_CHECK(targets.dim() == 1 && hidden.size(0) == split.hidden_rows(),
             .what = "model: one target a token",
             .found = tributary::str("hidden ", hidden.sizes(), ", targets ", targets.sizes()));
  const at::Tensor target_rows = at::nonzero(wanted >= 0).squeeze(1);
  const at::Tensor rows = ops::to_device(target_rows, hidden.device());
  const std::int64_t columns = model.config().backbone.vocab / model.layout().tp().size();
  // One boundary around all chunks: ranks with more targets must not gather more often.
  TargetLosses losses;
  losses.own = model.run_head(
      hidden,
      [&model, rows, own = ops::to_device(wanted.index_select(0, target_rows), hidden.device()),
       max_rows = std::max<std::int64_t>(1, max_logits / columns)](const at::Tensor& normalised) {
        const at::Tensor all = parallel::all_tokens(normalised, model.layout());
        return row_losses(model.language_head(), ops::select_rows(all, rows), own, max_rows);
      });
  losses.rows = losses.own.detach();
  losses.places = at::arange(target_rows.size(0), at::kLong);
  if (!model.layout().splits_sequence()) return losses;
  const at::Tensor is_target = targets >= 0;
  const at::Tensor own_tokens = at::tensor(split.kept(), at::kLong).index_select(0, target_rows);
  losses.places = is_target.cumsum(0).sub_(1).index_select(0, own_tokens);
  losses.rows =
      complete_rows(losses, is_target.sum().item<std::int64_t>(), model.layout().mesh->sequence());
  return losses;
}

LossSum sum_loss(Model& model, const at::Tensor& hidden, const at::Tensor& targets,
                 std::span<const std::int32_t> cu_seqlens, std::int64_t max_logits) {
  const TargetLosses losses = target_losses(model, hidden, targets, cu_seqlens, max_logits);
  return {.sum = losses.own.sum(), .rows = losses.rows, .targets = losses.rows.size(0)};
}

}  // namespace tributary::model
