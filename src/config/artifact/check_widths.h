#pragma once

#include <string>

#include "config/artifact/module_graph.h"
#include "config/reading/problems.h"

namespace tributary::config {

/// Adds a problem for each layer whose input width is not the width of the layer before it, and for
/// each edge whose features do not fit the module that they flow to. Edges must name modules.
void check_widths(const ModuleGraph& graph, const std::string& where, Problems& problems);

}  // namespace tributary::config
