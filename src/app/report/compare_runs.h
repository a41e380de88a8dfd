#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "app/report/run_record.h"
#include "core/json.h"

namespace tributary::app {

/// The losses of two runs, over the steps in which both have one.
struct LossComparison {
  std::int64_t steps = 0;
  std::int64_t last_steps = 0;  // at the end of them, at most 100: those of the means
  std::int64_t first_of_last = 0, last = 0;
  double own_mean = 0, other_mean = 0;
  double largest = 0;  // absolute difference
  std::int64_t largest_at = 0;
  double own_there = 0, other_there = 0;
};

/// A figure of the steps that two runs share, without the first tenth, in which runs warm up.
struct StepRatios {
  std::int64_t steps = 0;
  double own_median = 0, other_median = 0;
  double median = 0, min = 0, max = 0;  // of the ratio own / other, step by step
};

/// A key of config.yaml with two values; null where a configuration lacks it.
struct KeyDifference {
  std::string key;
  std::optional<std::string> own, other;

  friend bool operator==(const KeyDifference&, const KeyDifference&) = default;
};

/// A second run beside the run of a report.
struct RunComparison {
  RunRecord other;
  std::string own_name, other_name;  // the directories where both runs have the same name
  std::int64_t common_steps = 0;
  std::optional<LossComparison> loss;           // null: no step with both losses
  std::optional<StepRatios> seconds;            // of a step; null: no step with both
  std::optional<StepRatios> tokens_per_second;  // null: no step with both
  std::vector<KeyDifference> keys;              // ascending
};

/// Compares by the number of the step, so the runs may begin and end at different steps.
///
/// errors: Fault::kInput when a config.yaml is no plain YAML
/// cost:   O(steps log steps)
[[nodiscard]] RunComparison compare_runs(const RunRecord& run, RunRecord other);

/// The values of config.yaml by the names that overrides have: `data.sources.0.weight`.
///
/// errors: Fault::kInput when it is no plain YAML
[[nodiscard]] std::map<std::string, Json> read_values(const RunRecord& run);
/// A text as it is, other values as JSON.
[[nodiscard]] std::string show_value(const Json& value);

/// The wall seconds of a step, which are the sum of its phases.
[[nodiscard]] double wall_seconds(const StepRecord& step);

}  // namespace tributary::app
