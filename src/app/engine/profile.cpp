#include <iostream>

#include "app/engine/engine_verbs.h"
#include "config/run/read_run_config.h"
#include "train/profile/profile_job.h"
#include "train/start/session.h"

namespace tributary::app {

ExitCode run_profile(const ProfileOptions& options) {
  config::RunConfig config = config::read_run_config(options.config, options.overrides);
  config.batch.costs = {};  // it may be what is to be measured
  config::check_surroundings(config);
  config = train::resolve_adapter(std::move(config));
  return train::measure_profile(
      {.config = config, .output = options.output, .fewest = options.fewest}, std::cout);
}

}  // namespace tributary::app
