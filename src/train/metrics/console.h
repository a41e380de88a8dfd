#pragma once

#include <cstdint>
#include <deque>
#include <iosfwd>
#include <string>

#include "train/metrics/step_metrics.h"

namespace tributary::train {

/// Shows how a run goes: a line every few steps, and on a terminal between them one that is written
/// over at each step. Loss, norm and rate are those of the step; the second loss, the throughput
/// and the time left follow from the last 50.
class Console {
 public:
  /// `out` is standard output; `is_terminal` says what it is.
  Console(std::ostream& out, bool is_terminal, std::int64_t steps, std::int64_t every);

  void show(const StepMetrics& metrics);
  /// Prints a line of its own, above the live line.
  void say(const std::string& line);

 private:
  struct Step {
    double loss = 0;  // NaN where it was skipped
    double tokens = 0;
    double seconds = 0;
  };
  /// Means of the last steps.
  struct Recent {
    double loss = 0;
    double tokens_per_second = 0;
    double step_seconds = 0;  // a stall counts as a few steps
  };
  [[nodiscard]] Recent look_back() const;
  [[nodiscard]] std::string describe(const StepMetrics& metrics) const;

  std::ostream& out_;
  bool is_terminal_;
  std::int64_t steps_;
  std::int64_t every_;
  bool line_open_ = false;
  std::int64_t steps_seen_ = 0;
  std::deque<Step> steps_back_;  // the last steps, oldest first
};

/// Seconds as a person reads them: `41 s`, `3 min 20 s`, `2 h 05 min`.
[[nodiscard]] std::string describe_seconds(double seconds);

}  // namespace tributary::train
