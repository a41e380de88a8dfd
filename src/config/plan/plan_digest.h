#pragma once

#include <string>

#include "config/plan/plan.h"

namespace tributary::config {

/// A digest, 16 digits, of what a plan decides. It does not depend on the prediction, on the path
/// of the model, or on whether a module that is not cut lists its layers.
[[nodiscard]] std::string plan_digest(Plan plan);

}  // namespace tributary::config
