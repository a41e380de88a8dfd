#pragma once

#include <string>

#include "core/units.h"

namespace tributary::app {

/// Quantities as the planning verbs print them.
[[nodiscard]] std::string in_milliseconds(Nanoseconds time);       // 12.345 ms
[[nodiscard]] std::string in_percent(double share, int decimals);  // 94.1 %
[[nodiscard]] std::string in_gibibytes(Bytes bytes);               // 1.10 GiB

}  // namespace tributary::app
