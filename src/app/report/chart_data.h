#pragma once

#include "app/report/compare_runs.h"
#include "app/report/drawn_shares.h"
#include "app/report/run_record.h"
#include "core/json.h"

namespace tributary::app {

/// The columns that the charts of the page draw. A long run is cut into at most `max_points`
/// pieces of equal length, each drawn as the mean of its steps.
[[nodiscard]] Json chart_data(const RunRecord& run, const DrawnSources& drawn,
                              std::size_t max_points);

/// The loss curves of two runs for one chart, cut into pieces of the same number of steps.
[[nodiscard]] Json loss_curves(const RunRecord& run, const RunComparison& comparison,
                               std::size_t max_points);

}  // namespace tributary::app
