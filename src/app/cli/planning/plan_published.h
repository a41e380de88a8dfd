#pragma once

#include "app/requests/plan_request.h"
#include "core/exit_code.h"

namespace tributary::app {

/// Prints the plans of published methods for a cost table, or for a model that is turned into one.
/// For a model it also simulates each method's plan as a plan file of the trainer; with one method
/// it writes and explains that file.
///
/// errors: Fault::kInput naming key or option; Fault::kResource where the method has no plan, or
///         one that no file can hold
[[nodiscard]] ExitCode plan_published(const PlanOptions& options, bool is_table);

}  // namespace tributary::app
