#pragma once

#include <string>
#include <vector>

#include "studies/compare/compare.h"

namespace tributary::app {

/// A method of a setting that ran, as tables show it; a value that there is none of is a dash.
struct RunRow {
  std::string method = {};
  std::string simulated = {};
  std::string measured = {};         // min / median / max of its rounds
  std::string error = {};            // simulated / measured - 1
  std::string simulated_ratio = {};  // of the compared method's step to this one's
  std::string measured_ratio = {};
  std::string published_ratio = {};
  std::string remark = {};  // its plan, or why it did not run, or how it failed
};

/// The rows of a setting that ran, by measured step; those that did not run last.
[[nodiscard]] std::vector<RunRow> run_rows(const studies::Comparison& comparison,
                                           const studies::SettingResult& setting);

/// The methods in the order of run_rows.
[[nodiscard]] std::vector<studies::MethodResult> fastest_measured_first(
    const studies::SettingResult& setting);

/// `3 rounds of 8 steps, 2 to warm up, on 2 processes of x86-64`
[[nodiscard]] std::string describe_run(const studies::SettingResult& setting);

/// Whether the simulator's order of the methods is the measured one, in a sentence.
[[nodiscard]] std::string describe_pairs(const studies::PairOrder& order);

/// How far the losses of the methods are from those of the first one, in a sentence.
[[nodiscard]] std::string describe_losses(const studies::SettingResult& setting);

/// Whether something of the comparison ran.
[[nodiscard]] bool has_run(const studies::Comparison& comparison);

}  // namespace tributary::app
