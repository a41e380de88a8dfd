#pragma once

#include "plan/compare/compare.h"

namespace tributary::plan {

/// Sets published figures and orders beside the results of their settings. `run_samples` and
/// `devices` come from the study.
void judge_figures(const config::Study& study, Comparison& comparison);

}  // namespace tributary::plan
