#pragma once

#include <string>

#include "studies/compare/compare.h"

namespace tributary::app {

/// The card of a setting that ran: a bar for the measured and one for the simulated step of each
/// method, their table, and whether the simulator's order is right.
[[nodiscard]] std::string measured_card(const studies::Comparison& comparison,
                                        const studies::SettingResult& setting);

}  // namespace tributary::app
