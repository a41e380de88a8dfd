#pragma once

#include <cstdint>
#include <set>
#include <string>

#include "plan/problem/planning_problem.h"

namespace tributary::plan {

/// What a search leaves out because its costs are unknown.
struct LeftOut {
  std::int64_t cells = 0;
  std::set<std::string> degrees = {};  // `tp 2`, `dp_shard 3`

  /// `backbone tp 2, dp_shard 3`
  [[nodiscard]] std::string text() const;
};

/// The degree of a module for which the problem has no costs of layers or collectives; empty when
/// it has all. The backbone includes the modules that `apart` leaves inside it.
///
/// units: bit i of apart: encoder i of encoders_of has ranks of its own
[[nodiscard]] std::string missing_degree(const PlanningProblem& problem,
                                         const config::ModuleNode& node,
                                         const config::MeshShape& mesh, std::uint64_t apart);

}  // namespace tributary::plan
