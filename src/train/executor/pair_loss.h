#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "config/run/run_config.h"
#include "model/model.h"
#include "train/executor/collate.h"
#include "train/metrics/step_metrics.h"

namespace tributary::train {

/// The mean loss over the pairs of a global batch, microbatch by microbatch: how far the model
/// prefers each chosen answer to the rejected one, beside a reference model.
///
/// Each pair is two sequences of one microbatch. The log-probability of a sequence is the sum over
/// its targets, of all ranks that share a pack; the ranks compute the same loss, and each gives
/// gradients to the rows that it has computed.
/// source: docs/theory/numerics.md, "Pairs of answers"
class PairLoss {
 public:
  /// `pairs`: of the global batch. The model must outlive it.
  PairLoss(model::Model& model, const config::ObjectiveSection& objective, std::int64_t pairs,
           std::int64_t max_logits = model::kMaxLogits)
      : model_(model), objective_(objective), pairs_(pairs), max_logits_(max_logits) {}

  /// Keeps what the reference, whose weights the model has now, says of a microbatch.
  /// collective: as model::target_losses
  void take_reference(int index, const Microbatch& microbatch, const at::Tensor& hidden);
  /// Returns a scalar whose gradient is that of this microbatch's part of the mean. Its value is
  /// not the loss.
  ///
  /// shape: hidden as Model::forward gives it -> scalar f32, differentiable
  /// collective: as model::target_losses
  [[nodiscard]] at::Tensor operator()(int index, const Microbatch& microbatch,
                                      const at::Tensor& hidden);
  /// Adds the losses and figures of all microbatches so far. stream: the host waits for them
  void add_to(std::vector<SourceLoss>& losses, std::vector<PairSums>& sums) const;

 private:
  struct Figures {
    at::Tensor values;  // [kinds of figures, pairs] f64
    std::vector<int> sources;
  };

  model::Model& model_;
  config::ObjectiveSection objective_;
  std::int64_t pairs_;
  std::int64_t max_logits_;
  std::map<int, at::Tensor> reference_;  // [pairs, 2] f64, by microbatch
  std::vector<Figures> figures_;
};

}  // namespace tributary::train
