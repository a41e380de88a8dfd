#pragma once

#include <iosfwd>
#include <string>

#include "config/run_config.h"
#include "core/exit_code.h"

namespace tributary::train {

struct TrainRequest {
  config::RunConfig config;
  std::string resume;          // empty: a fresh run; `auto`: the newest checkpoint, or fresh; PATH
  std::string command;         // as typed, for environment.json
  std::string resume_command;  // what to type to go on
};

/// Trains as the configuration says and leaves the run's directory behind; `out` gets the progress.
///
/// Returns kDone, kTerminated after SIGTERM or Ctrl-C (a checkpoint is committed), or kNonFinite.
/// errors: Fault::kInput for a configuration, model, data set or checkpoint that cannot be used,
///         each before the first step; kDataLimit when too many records are bad; Fault::kResource
[[nodiscard]] ExitCode train(const TrainRequest& request, std::ostream& out);

}  // namespace tributary::train
