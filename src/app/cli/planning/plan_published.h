#pragma once

#include "app/requests/plan_request.h"
#include "core/exit_code.h"

namespace tributary::app {

/// Prints what published methods do with a cost table, or with a model as one; of a model and one
/// method also what its plan is worth as a plan of the trainer, which is written and explained.
///
/// errors: Fault::kInput naming key or option; Fault::kResource where the method has no plan, or
///         none that can be written
[[nodiscard]] ExitCode plan_published(const PlanOptions& options, bool is_table);

}  // namespace tributary::app
