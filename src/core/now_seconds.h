#pragma once

#include <chrono>

namespace tributary {

/// Seconds on the steady clock.
[[nodiscard]] inline double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace tributary
