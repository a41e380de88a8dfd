#pragma once

#include <span>

#include "config/cluster/cluster.h"

namespace tributary::config {

/// One constant of a cluster file: the reader, the writer and the format page walk these tables.
template <class Struct>
struct ConstantKey {
  const char* name;
  double Struct::*field;
  double least;  // range, its ends too
  double most;
  bool required;
  const char* unit;  // and meaning, as the written file says it
};

[[nodiscard]] std::span<const ConstantKey<DeviceModel>> device_keys();
[[nodiscard]] std::span<const ConstantKey<LinkLevel>> level_keys();

}  // namespace tributary::config
