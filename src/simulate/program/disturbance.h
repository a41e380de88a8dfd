#pragma once

#include <cstdint>
#include <vector>

#include "simulate/program/step_load.h"

namespace tributary::simulate {

/// What goes wrong, by rate and size; drawn from a seed.
struct Disturbance {
  double straggler_share = 0;   // of the ranks, in each step
  double straggler_factor = 1;  // their passes take so many times as long
  double anomaly_share = 0;     // of single passes
  double anomaly_factor = 1;
  double hours_between_failures = 0;  // of one rank; 0: none fails
  double restart_s = 300;
  std::int64_t checkpoint_steps = 100;

  [[nodiscard]] bool is_none() const {
    return straggler_share == 0 && anomaly_share == 0 && hours_between_failures == 0;
  }
};

inline constexpr double kMostSlowdown = 1000;  // two of them still leave room for passes of weeks
inline constexpr double kLongestTime = 1e9;    // of hours, seconds or steps

/// errors: Fault::kInput naming the value that is not finite or outside its range; times of passes
///         within these ranges can be counted in nanoseconds
void check_disturbance(const Disturbance& disturbance);

/// Makes passes of drawn lanes and drawn passes longer. A lane is as slow as the slowest of its
/// ranks.
///
/// shape: ranks [lanes]
void disturb_step(const StepProgram& program, const Disturbance& disturbance,
                  const std::vector<std::int64_t>& ranks, std::uint64_t seed, std::uint64_t step,
                  StepLoad& load);

/// What failures of ranks cost over many steps: the work since the last checkpoint, and the
/// restart.
struct FailureCost {
  std::int64_t failures = 0;
  double lost_s = 0;
  double goodput = 1;  // time that counts / time that passes; 0: 10,000 tries do not reach the
                       // next checkpoint, the job makes no progress
};

/// Plays the steps one after another. A failure loses what was done since the checkpoint; that work
/// runs again, may fail again, and does so until it succeeds. No rank fails while the job restarts.
///
/// source: expected time of work of T seconds between checkpoints, with L failures a second and
///         restarts of R: (1/L + R)(e^(LT) - 1) (Daly 2006, "A higher order estimate of the optimum
///         checkpoint interval")
[[nodiscard]] FailureCost play_failures(const Disturbance& disturbance, std::int64_t ranks,
                                        const std::vector<Nanoseconds>& steps, std::uint64_t seed);

}  // namespace tributary::simulate
