#pragma once

#include <string>
#include <string_view>

#include "studies/compare/compare.h"

namespace tributary::studies {

inline constexpr std::string_view kComparisonFormat = "tributary.comparison/1";

/// JSON of a comparison, ending with a line feed: docs/formats/study.md.
[[nodiscard]] std::string write_comparison(const Comparison& comparison);

/// Says how `search` was judged beside methods of tables, and which of these have plans outside of
/// its space; empty where there are none beside it.
[[nodiscard]] std::string note_on_search(const SettingResult& setting);

/// The name in studies: `speedup`, `hours`, ...
[[nodiscard]] std::string_view name_of(config::FigureQuantity quantity);
[[nodiscard]] std::string_view name_of(config::RankedBy by);
/// `not_asked`, `fits`, `changed`, `too_large`, `no_form`
[[nodiscard]] std::string_view name_of(PlanFile file);

}  // namespace tributary::studies
