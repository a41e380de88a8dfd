#pragma once

#include <string>
#include <string_view>

#include "plan/compare/compare.h"

namespace tributary::plan {

inline constexpr std::string_view kComparisonFormat = "tributary.comparison/1";

/// JSON of a comparison, and a line feed: docs/formats/study.md.
[[nodiscard]] std::string write_comparison(const Comparison& comparison);

/// `speedup`, `hours`, ...: as studies spell them.
[[nodiscard]] std::string_view name_of(config::FigureQuantity quantity);

}  // namespace tributary::plan
