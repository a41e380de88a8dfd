#pragma once

#include "config/artifact/cluster.h"

namespace tributary::app {

/// The cluster where the user names none: configs/clusters/a100_8.yaml, nodes of 8 A100-80 with
/// constants fitted to measured steps. CMake puts that file into the program, so that there is one.
[[nodiscard]] config::Cluster standard_cluster();

}  // namespace tributary::app
