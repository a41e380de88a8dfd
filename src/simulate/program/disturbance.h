#pragma once

#include <cstdint>
#include <vector>

#include "simulate/program/step_load.h"

namespace tributary::simulate {

/// What goes wrong, by rate and size; drawn from a seed.
struct Disturbance {
  double straggler_share = 0;   // of the ranks, in each step
  double straggler_factor = 1;  // factor on the time of their passes
  double anomaly_share = 0;     // of single passes
  double anomaly_factor = 1;
  double hours_between_failures = 0;  // of one rank; 0: none fails
  double restart_s = 300;
  std::int64_t checkpoint_steps = 100;

  [[nodiscard]] bool is_none() const {
    return straggler_share == 0 && anomaly_share == 0 && hours_between_failures == 0;
  }
};

inline constexpr double kMaxSlowdown = 1000;  // two of them still fit passes of weeks
inline constexpr double kLongestTime = 1e9;   // hours, seconds or steps

/// errors: Fault::kInput naming a value that is not finite or out of range; within these ranges all
///         pass times fit in nanoseconds
void check_disturbance(const Disturbance& disturbance);

/// Lengthens the passes of drawn lanes, and drawn single passes. The slowest rank of a lane counts.
///
/// shape: ranks [lanes]
void disturb_step(const StepProgram& program, const Disturbance& disturbance,
                  const std::vector<std::int64_t>& ranks, std::uint64_t seed, std::uint64_t step,
                  StepLoad& load);

/// The cost of failures over many steps: work lost since the last checkpoint, and restarts.
struct FailureCost {
  std::int64_t failures = 0;
  double lost_s = 0;
  double goodput = 1;  // useful time / elapsed time; 0: 10,000 tries do not reach
                       // the next checkpoint, so the job makes no progress
};

/// Plays the steps one after another. A failure loses the work since the checkpoint; it runs again,
/// and may fail again, until it succeeds. No rank fails during a restart.
///
/// source: expected time of work of T seconds between checkpoints, with L failures a second and
///         restarts of R: (1/L + R)(e^(LT) - 1) (Daly 2006, "A higher order estimate of the optimum
///         checkpoint interval")
[[nodiscard]] FailureCost play_failures(const Disturbance& disturbance, std::int64_t ranks,
                                        const std::vector<Nanoseconds>& steps, std::uint64_t seed);

}  // namespace tributary::simulate
