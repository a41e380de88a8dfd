#pragma once

#include <chrono>
#include <ctime>

#include "core/units.h"

namespace tributary {

/// Reads a clock, in seconds.
[[nodiscard]] inline double seconds_on(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}
/// Time that this thread has had a core, in seconds.
[[nodiscard]] inline double thread_cpu_seconds() { return seconds_on(CLOCK_THREAD_CPUTIME_ID); }
/// CPU time of all threads of this process together, in seconds.
[[nodiscard]] inline double process_cpu_seconds() { return seconds_on(CLOCK_PROCESS_CPUTIME_ID); }

/// Seconds on the steady clock.
[[nodiscard]] inline double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

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
