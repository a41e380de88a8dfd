#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "config/run/run_config.h"
#include "parallel/unit.h"

namespace tributary::train {

/// What the optimizer does with one parameter.
struct ParameterRule {
  double learning_rate_scale = 1;
  double weight_decay = 0;

  friend bool operator==(const ParameterRule&, const ParameterRule&) = default;
};

/// Gives the rule of the first group whose `match` is the unit's module or fits the parameter's
/// name. Without one, and where the group leaves the decay open: optimizer.weight_decay for
/// matrices, none for vectors (biases and norms).
[[nodiscard]] ParameterRule find_rule(const config::OptimizerSection& optimizer,
                                      std::string_view module,
                                      const parallel::Parameter& parameter);

/// Checks that each group matches at least one parameter.
///
/// errors: Fault::kInput naming the group, with the nearest parameter name
void check_groups(const config::OptimizerSection& optimizer,
                  std::span<const std::unique_ptr<parallel::Unit>> units);

}  // namespace tributary::train
