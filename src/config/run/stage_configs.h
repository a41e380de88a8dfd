#pragma once

#include <span>
#include <string>
#include <vector>

#include "config/run/run_config.h"

namespace tributary::config {

/// The runs of a configuration with stages, in their order: each with what its stage changes, in a
/// directory of its own, from the newest checkpoint of the one before it unless it names other
/// weights. Without stages the configuration itself.
///
/// errors: as read_run_config, for each stage; Fault::kInput where a stage changes the stages
[[nodiscard]] std::vector<RunConfig> stage_configs(const std::string& path,
                                                   std::span<const std::string> overrides);

/// Checks what one of them names, as check_surroundings. The checkpoint from which a later one goes
/// on is not there yet.
void check_stage(RunConfig stage, bool is_first);

}  // namespace tributary::config
