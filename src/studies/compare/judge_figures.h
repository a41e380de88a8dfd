#pragma once

#include "studies/compare/compare.h"

namespace tributary::studies {

/// Compares published figures and orders with the results of their settings. `run_samples` and
/// `devices` come from the study.
void judge_figures(const config::Study& study, Comparison& comparison);

}  // namespace tributary::studies
