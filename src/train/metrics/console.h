#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>

#include "train/metrics/step_metrics.h"

namespace tributary::train {

/// Shows how a run goes: on a terminal one line that is written over at each step, elsewhere a
/// plain line every few steps.
class Console {
 public:
  /// `out` is standard output; `is_terminal` says what it is.
  Console(std::ostream& out, bool is_terminal, std::int64_t steps, std::int64_t every);

  void show(const StepMetrics& metrics);
  /// A line of its own, above the live line.
  void say(const std::string& line);

 private:
  [[nodiscard]] std::string describe(const StepMetrics& metrics) const;

  std::ostream& out_;
  bool is_terminal_;
  std::int64_t steps_;
  std::int64_t every_;
  bool line_open_ = false;
  std::int64_t steps_seen_ = 0;
  double step_seconds_ = 0;  // smoothed
};

/// Seconds as a person reads them: `41 s`, `3 min 20 s`, `2 h 05 min`.
[[nodiscard]] std::string describe_seconds(double seconds);

}  // namespace tributary::train
