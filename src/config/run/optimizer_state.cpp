#include "config/run/optimizer_state.h"

namespace tributary::config {

double moment_bytes(OptimizerKind optimizer, ParameterClass of) {
  constexpr double kWide = 4;
  switch (optimizer) {
    case OptimizerKind::kAdamW:
      break;
    case OptimizerKind::kMuon:
      if (of.is_map) return kWide;
      break;
    case OptimizerKind::kAdamW8bit:
      if (of.is_large) return 2 * (1 + kWide / static_cast<double>(kQuantisedBlock));
      break;
  }
  return 2 * kWide;
}

}  // namespace tributary::config
