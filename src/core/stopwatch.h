#pragma once

#include <chrono>

#include "core/units.h"

namespace tributary {

/// Time since construction or the last lap, on the steady clock.
class Stopwatch {
 public:
  [[nodiscard]] Nanoseconds elapsed() const {
    return {std::chrono::nanoseconds(std::chrono::steady_clock::now() - start_).count()};
  }
  [[nodiscard]] double seconds() const { return static_cast<double>(elapsed().count) * 1e-9; }
  /// Returns seconds() and starts again.
  double lap() {
    const double passed = seconds();
    start_ = std::chrono::steady_clock::now();
    return passed;
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace tributary
