#pragma once

#include <optional>
#include <string>
#include <vector>

#include "config/plan/plan.h"

namespace tributary::config {

/// Parses `embed`, a range of layers and `head`, each optional, in this order; else null.
[[nodiscard]] std::optional<StageLayers> parse_stage(const std::vector<std::string>& units);
[[nodiscard]] std::vector<std::string> write_stage(const StageLayers& stage);

}  // namespace tributary::config
