#pragma once

#include <cstdint>

#include "config/run/run_config.h"

namespace tributary::config {

/// A parameter as optimizers see it.
struct ParameterClass {
  bool is_map = false;    // the weight of a linear map of a layer
  bool is_large = false;  // a matrix of at least kFewestQuantised elements
};

inline constexpr std::int64_t kFewestQuantised = 4096;
inline constexpr std::int64_t kQuantisedBlock = 256;  // elements that share a scale

/// Bytes of an optimizer's moments for each element of a parameter: two float32 numbers of AdamW,
/// one of Muon for linear maps, two bytes and scales of 8-bit AdamW for large matrices.
[[nodiscard]] double moment_bytes(OptimizerKind optimizer, ParameterClass of);

/// Bytes of one averaged weight (optimizer.ema_decay).
inline constexpr double kAverageBytes = 4;

}  // namespace tributary::config
