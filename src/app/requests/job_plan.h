#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "config/plan/plan.h"
#include "config/run/run_config.h"

namespace tributary::app {

/// The plan by which `train` runs a configuration on `ranks` processes, as it writes it; 0: on as
/// few as the degrees allow. Starts no process and reads no weights; of a run with adapters the
/// engine lists the linear maps.
///
/// errors: Fault::kInput as config::plan_of_run
[[nodiscard]] config::Plan plan_of_job(config::RunConfig run, std::int64_t ranks);

/// Refuses what each of `ranks` processes of `train` would refuse before they meet: configuration,
/// files and plan of each stage. A configuration that comes from a pipe is left to the one process
/// that can read it.
///
/// Returns how many encoders the plan of the first stage that has some puts beside the ranks; 0
/// where none has, or it cannot be read.
/// errors: Fault::kInput as those processes
[[nodiscard]] std::int64_t check_job(const std::string& configuration,
                                     std::span<const std::string> overrides, std::int64_t ranks);

}  // namespace tributary::app
