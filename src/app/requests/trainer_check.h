#pragma once

#include <optional>
#include <string>

#include "app/requests/read_document.h"
#include "config/family/model_config.h"
#include "config/plan/plan.h"
#include "config/run/run_config.h"

namespace tributary::app {

/// Says whether `train --plan` accepts a plan. It runs the checks of `config` that the trainer
/// runs: features of the plan that it lacks, the model's family, the mesh and the layers.
class TrainerCheck {
 public:
  /// run: the run configuration that the plan will be used with
  explicit TrainerCheck(const Document& model, config::RunConfig run = {});

  /// Why the trainer accepts no plan of the model; empty where it may accept one.
  [[nodiscard]] const std::string& refusal_of_model() const { return refusal_; }
  /// Why the trainer refuses the plan, on one line; empty where it accepts it.
  [[nodiscard]] std::string refusal_of(const config::Plan& plan) const;

 private:
  std::optional<config::ModelConfig> model_;  // null: refusal_ says why
  std::string refusal_;
  config::RunConfig run_;
};

}  // namespace tributary::app
