#pragma once

#include <algorithm>

#include "config/run/run_config.h"

namespace tributary::config {

/// The section of the vision tower; sections stand in the order of names.
inline ModuleSection& vision_of(ParallelSection& parallel) {
  return *std::ranges::find(parallel.modules, "vision", &ModuleSection::module);
}
inline const ModuleSection& vision_of(const ParallelSection& parallel) {
  return *std::ranges::find(parallel.modules, "vision", &ModuleSection::module);
}

}  // namespace tributary::config
