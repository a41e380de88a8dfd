#pragma once

#include <string>
#include <vector>

#include "app/report/run_record.h"

namespace tributary::app {

/// What all steps of a run drew from one source.
struct SourceTotals {
  std::string name = {};
  double samples = 0, tokens = 0, target_tokens = 0;
  MaybeNumber asked = {};                 // share that data.sources[].weight asks for
  std::vector<double> share_so_far = {};  // [steps] of samples or tokens; as DrawnSources says
};

struct DrawnSources {
  std::vector<SourceTotals> sources;  // in the order of the configuration; empty in older runs
  bool weighs_tokens = false;         // data.weigh_by: the weights are of tokens, not of samples

  [[nodiscard]] std::string unit() const { return weighs_tokens ? "tokens" : "samples"; }
};

/// errors: Fault::kInput when config.yaml is no plain YAML
[[nodiscard]] DrawnSources count_drawn(const RunRecord& run);

}  // namespace tributary::app
