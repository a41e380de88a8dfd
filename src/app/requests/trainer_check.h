#pragma once

#include <optional>
#include <string>

#include "app/requests/read_document.h"
#include "config/family/model_config.h"
#include "config/plan/plan.h"
#include "config/run/run_config.h"

namespace tributary::app {

/// Says whether `train --plan` takes a plan, by the checks of `config` that it makes itself: what
/// of a plan it cannot do, the model's family, mesh and layers.
class TrainerCheck {
 public:
  /// run: the run that the plan would be of; none: one with the defaults
  explicit TrainerCheck(const Document& model, config::RunConfig run = {});

  /// Why the trainer takes no plan of the model; empty where it may take one.
  [[nodiscard]] const std::string& refusal_of_model() const { return refusal_; }
  /// Why the trainer refuses the plan, on one line; empty where it takes it.
  [[nodiscard]] std::string refusal_of(const config::Plan& plan) const;

 private:
  std::optional<config::ModelConfig> model_;  // none: refusal_ says why
  std::string refusal_;
  config::RunConfig run_;
};

}  // namespace tributary::app
