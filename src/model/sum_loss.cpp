#include <algorithm>

#include <ATen/ATen.h>

#include "core/error.h"
#include "model/model.h"
#include "ops/select_rows.h"
#include "parallel/layer_boundary.h"
#include "parallel/sequence/token_split.h"
#include "parallel/token_exchange.h"

namespace tributary::model {
namespace {

at::Tensor row_losses(Model& model, const at::Tensor& hidden, const at::Tensor& targets,
                      std::int64_t most_logits) {
  const std::int64_t rows = hidden.size(0);
  const parallel::LanguageHead& head = model.language_head();
  const std::int64_t columns = model.config().backbone.vocab / model.layout().tp().size();
  const std::int64_t chunk =
      rows * columns <= most_logits ? rows : std::max<std::int64_t>(1, most_logits / columns);
  // One boundary around all chunks: ranks with more targets must not gather more often.
  return parallel::run_layer(
      head.unit(), parallel::Keep::kActivations, hidden, [=, &head](const at::Tensor& all) {
        if (chunk == rows) return head.losses(all, targets);
        std::vector<at::Tensor> losses;
        for (std::int64_t first = 0; first < rows; first += chunk) {
          const std::int64_t count = std::min(chunk, rows - first);
          losses.push_back(parallel::run_twice(
              head.unit(), all.narrow(0, first, count),
              [&head, wanted = targets.narrow(0, first, count)](const at::Tensor& some) {
                return head.losses(some, wanted);
              }));
        }
        return at::cat(losses, 0);
      });
}

/// The losses of all targets of the pack, of which this rank has computed some.
at::Tensor complete_rows(const at::Tensor& own, const at::Tensor& own_tokens,
                         const at::Tensor& is_target, const mesh::Group& sequence) {
  const at::Tensor place = is_target.cumsum(0).sub_(1);
  const at::Tensor rows = at::zeros({is_target.sum().item<std::int64_t>()}, own.options());
  rows.index_copy_(0, place.index_select(0, own_tokens), own);
  sequence.all_reduce(rows).wait();
  return rows;
}

}  // namespace

LossSum sum_loss(Model& model, const at::Tensor& hidden, const at::Tensor& targets,
                 std::span<const std::int32_t> cu_seqlens, std::int64_t most_logits) {
  const parallel::TokenSplit split(cu_seqlens, model.layout());
  const at::Tensor all = parallel::all_tokens(hidden, model.layout());
  const at::Tensor wanted = split.keep(targets, /*padding=*/-100);
  TRIB_CHECK(targets.dim() == 1 && wanted.size(0) == all.size(0),
             .what = "model: one target a token",
             .found = tributary::str("hidden ", all.sizes(), ", targets ", targets.sizes()));
  const at::Tensor rows = at::nonzero(wanted >= 0).squeeze(1);
  const at::Tensor losses =
      row_losses(model, ops::select_rows(all, rows), wanted.index_select(0, rows), most_logits);
  LossSum result{.sum = losses.sum(), .rows = losses.detach(), .targets = rows.size(0)};
  if (!model.layout().splits_sequence()) return result;
  const at::Tensor kept = at::tensor(split.kept(), at::kLong).to(targets.device());
  result.rows = complete_rows(result.rows, kept.index_select(0, rows), targets >= 0,
                              model.layout().mesh->sequence());
  result.targets = result.rows.size(0);
  return result;
}

}  // namespace tributary::model
