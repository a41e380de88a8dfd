#pragma once

#include "plan/candidates/list_degrees.h"

namespace tributary::plan {

/// All cells of the space, bounded by costs that are convex in the size of a pass and nowhere above
/// the problem's own. `tables` hold the problem's own costs.
[[nodiscard]] CellList list_least_cells(const PlanningProblem& problem, ChainTables& tables);

}  // namespace tributary::plan
