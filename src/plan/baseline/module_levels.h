#pragma once

#include <vector>

#include "plan/staging/sharing_problem.h"

namespace tributary::plan {

/// The modules by depth in the graph: those of a level do not depend on each other.
[[nodiscard]] std::vector<std::vector<std::int32_t>> levels_of(const SharingProblem& problem);

/// The first module that does not fit a device, and by how much; empty where all fit. Methods that
/// choose devices by time alone need it at every width, others on all devices.
[[nodiscard]] std::string explain_memory(const SharingProblem& problem, bool on_all_devices);

}  // namespace tributary::plan
