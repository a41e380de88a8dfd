#pragma once

#include <string>

#include "config/artifact/module_graph.h"
#include "config/reading/problems.h"

namespace tributary::config {

/// Adds to `problems` each layer that does not take what the one before it gives, and each edge
/// whose features do not fit the module that they flow to. Edges must name modules.
void check_widths(const ModuleGraph& graph, const std::string& where, Problems& problems);

}  // namespace tributary::config
