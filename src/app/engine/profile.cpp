#include <iostream>

#include "app/engine/engine_verbs.h"
#include "config/run/read_run_config.h"
#include "core/error.h"
#include "train/profile/profile_job.h"

namespace tributary::app {

ExitCode run_profile(const ProfileOptions& options) {
  config::RunConfig config = config::read_run_config(options.config, options.overrides);
  TRIB_REQUIRE(!config.model.has_adapters() && config.model.adapter.path.empty(),
               .what = "profile: layers with adapters are not measured",
               .where = options.config + " adapter.kind", .expected = "none",
               .fix = "leave the section adapter out to measure the model itself");
  config.batch.costs = {};  // it may be what is to be measured
  config::check_surroundings(config);
  return train::measure_profile(
      {.config = config, .output = options.output, .fewest = options.fewest}, std::cout);
}

}  // namespace tributary::app
