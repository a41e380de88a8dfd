#pragma once

#include <string>
#include <vector>

#include "config/plan/plan.h"
#include "config/run/run_config.h"
#include "core/error.h"

namespace tributary::config {

/// Lists the parts of a plan that the trainer cannot run, each with its key path. When the list is
/// empty, it runs the plan for any model that it knows; otherwise apply_plan refuses the plan.
[[nodiscard]] std::vector<ErrorParts> trainer_limits(const Plan& plan, const std::string& where);

/// As apply_plan of config/plan/plan.h, for a plan already read; `where` names it in messages.
[[nodiscard]] RunConfig apply_plan(const Plan& plan, const std::string& where, RunConfig config);

}  // namespace tributary::config
