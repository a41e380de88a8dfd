#pragma once

#include <string>

#include "config/plan/plan.h"

namespace tributary::config {

/// Tells plans apart by what they decide: 16 digits, the same whatever a planner predicts, where
/// the model lies, and whether a module that is not cut lists its layers.
[[nodiscard]] std::string plan_digest(Plan plan);

}  // namespace tributary::config
