#pragma once

#include <iosfwd>
#include <string>

#include "config/run/run_config.h"
#include "core/exit_code.h"

namespace tributary::train {

struct ProfileRequest {
  config::RunConfig config;
  std::string output;  // profile.json; what it holds already is not measured again
  /// Fewer than all processes are measured too: half as many, down to so many; 0: all alone.
  std::int64_t fewest = 0;
};

/// Measures what one number of processes can tell about a run's model on this machine, and writes
/// the profile after each point. The first rank speaks to `out`.
///
/// With n processes: the layers of one rank alone while n ranks are at work, of fewer in turns with
/// them; where all have cores, the layers of tp = n; collectives and messages over n.
///
/// The code is kDone, or kTerminated after SIGTERM or Ctrl-C: what was measured is kept.
/// errors: Fault::kInput for a profile of something else, naming the key, and as a run's
[[nodiscard]] ExitCode measure_profile(const ProfileRequest& request, std::ostream& out);

}  // namespace tributary::train
