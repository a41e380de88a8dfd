#pragma once

#include "studies/compare/compare.h"

namespace tributary::app {

/// Prints a setting that ran: its methods by measured step, and whether the simulator's order is
/// right.
void print_measured(const studies::Comparison& comparison, const studies::SettingResult& setting);

}  // namespace tributary::app
