#include "train/optimizer/apply_update.h"

#include <cmath>

#include <ATen/ATen.h>

#include "train/optimizer/gradient_norm.h"
#include "train/optimizer/learning_rate.h"

namespace tributary::train {
namespace {

std::string first_not_finite(const model::Model& model) {
  const at::NoGradGuard no_grad;
  for (const auto& unit : model.units()) {
    if (!unit->trainable()) continue;
    for (const auto& parameter : unit->parameters())
      if (const parallel::Range own = unit->range_of(*parameter);
          !at::isfinite(unit->shard_gradient().narrow(0, own.first, own.count)).all().item<bool>())
        return parameter->name;
  }
  return "";
}

/// The first parameter that any rank names. collective: over all ranks
std::string first_of_all_ranks(const model::Model& model) {
  for (const std::string& name : model.layout().mesh->world().gather_text(first_not_finite(model)))
    if (!name.empty()) return name;
  return "gradient norm";  // finite values whose squares are not
}

}  // namespace

double next_learning_rate(const Optimizer& optimizer, const config::RunConfig& config) {
  return config.optimizer.learning_rate *
         learning_rate_factor(config.schedule, config.run.steps, optimizer.steps());
}

Update apply_update(const model::Model& model, Optimizer& optimizer,
                    const config::RunConfig& config, double loss, double sum_squared,
                    Measure measure) {
  Update update;
  update.learning_rate = next_learning_rate(optimizer, config);
  update.grad_norm = std::sqrt(sum_squared);
  if (!std::isfinite(loss)) {
    update.not_finite = "loss";
  } else if (!std::isfinite(sum_squared)) {
    update.not_finite = first_of_all_ranks(model);
  } else {
    const double factor = clip_factor(update.grad_norm, config.optimizer.clip_norm);
    if (measure == Measure::kUpdate) {
      update.squares = optimizer.measured_step(update.learning_rate, factor);
    } else {
      optimizer.step(update.learning_rate, factor);
    }
  }
  return update;
}

}  // namespace tributary::train
