#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/model.h"
#include "train/executor/collate.h"
#include "train/metrics/step_metrics.h"

namespace tributary::train {

/// Adds the loss of each target row to its source, in f64 and in row order.
///
/// shape: row_losses [target tokens] f32, sources [target tokens]
void add_by_source(const at::Tensor& row_losses, std::span<const int> sources,
                   std::vector<SourceLoss>& by_source);

/// The mean cross entropy over the target tokens of a global batch, microbatch by microbatch.
class TokenLoss {
 public:
  /// `targets`: of the global batch. The model must outlive it.
  TokenLoss(model::Model& model, std::int64_t targets, std::int64_t max_logits = model::kMaxLogits)
      : model_(model), targets_(targets), max_logits_(max_logits) {}

  /// Returns this microbatch's part of the mean; of this rank's tokens, where ranks share a pack.
  /// shape: hidden as Model::forward gives it -> scalar f32, differentiable
  /// collective: as model::target_losses
  [[nodiscard]] at::Tensor operator()(const Microbatch& microbatch, const at::Tensor& hidden);
  /// Adds the losses of all microbatches so far. stream: the host waits for them
  void add_to(std::vector<SourceLoss>& by_source) const;

 private:
  /// Read when the step is over: a device would have to finish its forward first.
  struct RowLosses {
    at::Tensor rows;
    std::vector<int> sources;
  };

  model::Model& model_;
  std::int64_t targets_;
  std::int64_t max_logits_;
  std::vector<RowLosses> losses_;
};

}  // namespace tributary::train
