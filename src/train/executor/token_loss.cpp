#include "train/executor/token_loss.h"

#include <ATen/ATen.h>

#include "core/error.h"

namespace tributary::train {

void add_by_source(const at::Tensor& row_losses, std::span<const int> sources,
                   std::vector<SourceLoss>& by_source) {
  const at::Tensor rows = row_losses.to(at::kCPU, at::kFloat).contiguous();
  TRIB_CHECK(rows.numel() == static_cast<std::int64_t>(sources.size()),
             .what = "train: not one loss a target token", .found = str(rows.numel()),
             .expected = str(sources.size()));
  const float* losses = rows.const_data_ptr<float>();
  for (std::size_t i = 0; i < sources.size(); ++i)
    by_source[static_cast<std::size_t>(sources[i])] += {.sum = double{losses[i]}, .targets = 1};
}

at::Tensor TokenLoss::operator()(const Microbatch& microbatch, const at::Tensor& hidden) {
  const model::LossSum loss =
      model::sum_loss(model_, hidden, microbatch.targets, microbatch.batch.cu_seqlens, max_logits_);
  losses_.push_back({loss.rows, microbatch.target_sources});
  return loss.sum / static_cast<double>(targets_);
}

void TokenLoss::add_to(std::vector<SourceLoss>& by_source) const {
  for (const RowLosses& losses : losses_) add_by_source(losses.rows, losses.sources, by_source);
}

}  // namespace tributary::train
