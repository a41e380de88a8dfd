#pragma once

#include <string>
#include <vector>

#include "config/plan/plan.h"
#include "config/run/run_config.h"
#include "core/error.h"

namespace tributary::config {

/// What of a plan the trainer cannot do, each with its key path; nothing: it takes the plan for a
/// model that it knows. apply_plan refuses by this list.
[[nodiscard]] std::vector<ErrorParts> trainer_limits(const Plan& plan, const std::string& where);

/// As apply_plan of config/plan/plan.h, of a plan that is at hand; `where` names it in messages.
[[nodiscard]] RunConfig apply_plan(const Plan& plan, const std::string& where, RunConfig config);

}  // namespace tributary::config
