#pragma once

#include <iosfwd>
#include <string>

#include "config/run/run_config.h"
#include "core/exit_code.h"

namespace tributary::train {

struct ProfileRequest {
  config::RunConfig config;
  std::string output;  // profile.json; what it holds already is not measured again
  /// Fewer processes than all are measured too, by halves down to `fewest`; 0: only all.
  std::int64_t fewest = 0;
};

/// Measures what this number of processes can tell about a run's model on this machine, and writes
/// the profile after each point. The first rank speaks to `out`.
///
/// With n processes it measures the layers of one rank while n ranks work, and in turns while fewer
/// do; at every tp that divides n and the modules, the layers of n tp ranks, where all have cores
/// or one thread; and collectives and messages over n.
///
/// The code is kDone, or kTerminated after SIGTERM or Ctrl-C: what was measured is kept.
/// errors: Fault::kInput for a profile of something else, naming the key, and as a run's
[[nodiscard]] ExitCode measure_profile(const ProfileRequest& request, std::ostream& out);

}  // namespace tributary::train
