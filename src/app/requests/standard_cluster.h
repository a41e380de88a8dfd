#pragma once

#include "config/artifact/cluster.h"

namespace tributary::app {

/// The default cluster, configs/clusters/a100_8.yaml: nodes of 8 A100-80 with constants fitted to
/// measured steps. CMake puts the content of that file into the program.
[[nodiscard]] config::Cluster standard_cluster();

}  // namespace tributary::app
