#include "app/report/drawn_shares.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "app/report/compare_runs.h"
#include "core/text.h"

namespace tributary::app {
namespace {

double count_of(const StepRecord& step, const std::string& source, const std::string& what) {
  const auto drawn = step.drawn.find(source);
  if (drawn == step.drawn.end()) return 0;
  const auto count = drawn->second.find(what);
  return count == drawn->second.end() ? 0 : count->second;
}

/// The sources of the configuration with their weights, then others that steps name.
std::vector<SourceTotals> list_sources(const RunRecord& run,
                                       const std::map<std::string, Json>& values) {
  std::set<std::string> named;
  for (const StepRecord& step : run.steps)
    for (const auto& [source, counts] : step.drawn) named.insert(source);
  std::vector<SourceTotals> sources;
  double weights = 0;
  for (int i = 0; values.contains(str("data.sources.", i, ".name")); ++i) {
    const auto weight = values.find(str("data.sources.", i, ".weight"));
    SourceTotals source{.name = show_value(values.at(str("data.sources.", i, ".name")))};
    if (weight != values.end() && weight->second.is_number())
      weights += *(source.asked = weight->second.get<double>());
    named.erase(source.name);
    sources.push_back(std::move(source));
  }
  for (SourceTotals& source : sources)
    if (source.asked) *source.asked /= weights;
  for (const std::string& name : named) sources.push_back({.name = name});
  return sources;
}

}  // namespace

DrawnSources count_drawn(const RunRecord& run) {
  DrawnSources drawn;
  if (std::ranges::all_of(run.steps, [](const StepRecord& step) { return step.drawn.empty(); }))
    return drawn;
  const std::map<std::string, Json> values = read_values(run);
  const auto weigh_by = values.find("data.weigh_by");
  drawn.weighs_tokens = weigh_by != values.end() && weigh_by->second == "tokens";
  drawn.sources = list_sources(run, values);
  for (const StepRecord& step : run.steps) {
    double all = 0;
    for (SourceTotals& source : drawn.sources) {
      source.samples += count_of(step, source.name, "samples");
      source.tokens += count_of(step, source.name, "tokens");
      source.target_tokens += count_of(step, source.name, "target_tokens");
      all += drawn.weighs_tokens ? source.tokens : source.samples;
    }
    for (SourceTotals& source : drawn.sources)
      source.share_so_far.push_back(
          all > 0 ? (drawn.weighs_tokens ? source.tokens : source.samples) / all : 0);
  }
  return drawn;
}

}  // namespace tributary::app
