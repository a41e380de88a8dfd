#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "app/launch/restart_policy.h"

namespace tributary::app {

/// A job on this machine.
struct LaunchOptions {
  std::int64_t ranks = 1;
  std::vector<std::string> words;  // verb and arguments of every rank
  RestartLimits limits;
  std::string command = {};  // what to type before the verb to run the job again
};

/// Runs as many copies of this executable as there are ranks, restarts them by the policy, and
/// returns the exit code: 0, that of the root cause, or kCrashLoop. The last line on standard error
/// names the cause.
///
/// When one rank fails, the others have 200 ms to leave, then SIGTERM (a stopped one is woken to
/// take it), and SIGKILL 5 s later.
/// SIGINT, SIGTERM and SIGHUP of the launcher go to all ranks; then nothing is restarted.
///
/// errors: Fault::kResource when a rank cannot be started
[[nodiscard]] int run_ranks(const LaunchOptions& options);

}  // namespace tributary::app
