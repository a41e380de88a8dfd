#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "app/launch/encoder_processes.h"
#include "app/launch/restart_policy.h"

namespace tributary::app {

/// A job on this machine.
struct LaunchOptions {
  std::int64_t ranks = 1;
  std::vector<std::string> words;  // verb and arguments of every rank
  RestartLimits limits;
  std::string command = {};     // the words to type before the verb to run the job again
  bool are_ranks = true;        // false: the process is no rank, and may start a job of its own
  EncoderCounts encoders = {};  // processes beside the ranks
  std::vector<std::string> encoder_words = {};  // verb and arguments of each
};

/// Runs one copy of this executable per rank, restarts them by RestartPolicy, and returns the exit
/// code: 0, that of the root cause, or kCrashLoop. The last line on standard error names the cause.
///
/// When a rank fails, the others have 200 ms to end; then they get SIGTERM, which also wakes
/// stopped ones, and SIGKILL 5 s later. The launcher forwards SIGINT, SIGTERM and SIGHUP to all
/// ranks, and then restarts nothing.
///
/// errors: Fault::kResource when a rank cannot be started
[[nodiscard]] int run_ranks(const LaunchOptions& options);

/// How a job ended that ran once.
struct JobEnd {
  int exit_code = 0;           // of the root cause
  std::string cause = {};      // the rank and its error; empty where all ranks ended well
  bool was_signalled = false;  // the launcher got a signal, which it forwarded
};

/// Runs a job once and prints nothing. Signals, and ranks that fail, are treated as by run_ranks.
///
/// errors: Fault::kResource when a rank cannot be started
[[nodiscard]] JobEnd run_once(const LaunchOptions& options);

}  // namespace tributary::app
