#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/plan/plan.h"

namespace tributary::config {

/// Parses `0-3,8` to 0 1 2 3 8; null unless ranks ascend, come once and are below 2^20.
[[nodiscard]] std::optional<std::vector<std::int64_t>> parse_ranks(std::string_view text);
[[nodiscard]] std::string write_ranks(const std::vector<std::int64_t>& ranks);

/// Parses `embed`, a range of layers and `head`, each optional, in this order; else null.
[[nodiscard]] std::optional<StageLayers> parse_stage(const std::vector<std::string>& units);
[[nodiscard]] std::vector<std::string> write_stage(const StageLayers& stage);

}  // namespace tributary::config
