#pragma once

#include <string>

#include "config/run/run_config.h"

namespace tributary::config {

/// `dpo, sigmoid loss, beta 0.1`
[[nodiscard]] std::string describe_objective(const ObjectiveSection& objective);

}  // namespace tributary::config
