#pragma once

#include <optional>
#include <string>

#include "app/requests/read_document.h"
#include "config/family/model_config.h"
#include "config/plan/plan.h"
#include "config/run/run_config.h"

namespace tributary::app {

/// Says whether `train --plan` accepts a plan, by config::check_trains, which the trainer asks too.
class TrainerCheck {
 public:
  /// run: the run configuration that the plan will be used with
  explicit TrainerCheck(const Document& model, config::RunConfig run = {});

  /// Why the trainer accepts no plan of the model; empty where it may accept one.
  [[nodiscard]] const std::string& refusal_of_model() const { return refusal_; }
  /// Why the trainer refuses the plan, on one line; empty where it accepts it.
  [[nodiscard]] std::string refusal_of(const config::Plan& plan) const;
  /// What the run says of its samples (data.max_tokens); 0: nothing.
  [[nodiscard]] Tokens longest_sample() const { return {run_.data.max_tokens}; }

 private:
  std::optional<config::ModelConfig> model_;  // null: refusal_ says why
  std::string refusal_;
  config::RunConfig run_;
};

}  // namespace tributary::app
