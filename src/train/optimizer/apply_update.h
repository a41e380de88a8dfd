#pragma once

#include <optional>
#include <string>

#include "config/run/run_config.h"
#include "model/model.h"
#include "train/optimizer/optimizer.h"

namespace tributary::train {

/// What became of the gradients of one step.
struct Update {
  double learning_rate = 0;
  double grad_norm = 0;    // before clipping
  std::string not_finite;  // `loss`, or a parameter of any rank; then nothing was changed
  std::optional<UpdateSquares> squares = {};  // of this rank, where they were asked for
};

/// Whether an update says how far it moved the parameters.
enum class Measure { kNothing, kUpdate };

/// The learning rate of the optimizer's next step.
[[nodiscard]] double next_learning_rate(const Optimizer& optimizer,
                                        const config::RunConfig& config);

/// Votes on loss and gradients, then clips and updates with the next learning rate. A vote against
/// leaves parameters, moments and the step count as they are.
///
/// units:  `loss` and `sum_squared` (square_gradients) are those of all ranks
/// collective: over all ranks, where the gradients are not finite
/// source: docs/theory/reliability.md, "Vote on gradients"
[[nodiscard]] Update apply_update(const model::Model& model, Optimizer& optimizer,
                                  const config::RunConfig& config, double loss, double sum_squared,
                                  Measure measure = Measure::kNothing);

}  // namespace tributary::train
