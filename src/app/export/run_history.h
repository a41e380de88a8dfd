#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "app/report/run_record.h"

namespace tributary::app {

/// The figures of a run as trackers of experiments keep them.
struct RunHistory {
  struct Step {
    double seconds = 0;                     // of training, up to the end of the step
    std::map<std::string, double> figures;  // by path in its line: seconds/forward
  };
  std::string name;
  std::string key;          // 64 hexadecimal digits, the same for each export of the run
  double started = 0;       // [s] since 1970
  bool has_ended = false;   // else it goes on, or was killed
  bool has_failed = false;  // an error ended it
  std::map<std::string, std::string> settings;  // keys of config.yaml, values as JSON
  std::map<std::int64_t, Step> steps;           // those of a validation begin with validation/

  [[nodiscard]] double seconds() const {
    return steps.empty() ? 0 : steps.rbegin()->second.seconds;
  }
};

/// Reads the figures of a run: every number and every yes or no of metrics.jsonl and
/// validation.jsonl. What is null, a text or a list is left out.
///
/// errors: as read_run
[[nodiscard]] RunHistory read_history(const std::string& directory);

}  // namespace tributary::app
