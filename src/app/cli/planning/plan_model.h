#pragma once

#include "app/cli/planning/plan_request.h"
#include "core/exit_code.h"

namespace tributary::app {

/// Prints the best plans of `search` and writes the best one.
///
/// errors: Fault::kInput naming key or option; Fault::kResource where no plan fits the devices
[[nodiscard]] ExitCode plan_model(const ModelPlanning& arguments);

}  // namespace tributary::app
