#pragma once

#include "studies/compare/compare.h"

namespace tributary::studies {

/// Whether the simulator has the methods of a setting in the order in which they ran, pair by pair,
/// by the medians of their rounds. Equal values of one side are in no order, so such a pair is
/// wrong.
[[nodiscard]] PairOrder judge_pairs(const SettingResult& setting);

/// Sets what the figures and orders of a comparison are by the measured steps. A quantity that no
/// run measures, such as idle time, stays null.
void judge_measured(const config::Study& study, Comparison& comparison);

}  // namespace tributary::studies
