#include "app/report/compare_runs.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "config/reading/yaml_json.h"

namespace tributary::app {
namespace {

constexpr std::ptrdiff_t kLastSteps = 100;

struct StepPair {
  const StepRecord* own;
  const StepRecord* other;
};

/// Lists the steps of both runs, ascending.
std::vector<StepPair> pair_steps(const std::vector<StepRecord>& own,
                                 const std::vector<StepRecord>& other) {
  std::vector<StepPair> pairs;
  auto next = other.begin();
  for (const StepRecord& step : own) {
    while (next != other.end() && next->step < step.step) ++next;
    if (next != other.end() && next->step == step.step) pairs.push_back({&step, &*next});
  }
  return pairs;
}

std::optional<LossComparison> compare_losses(std::vector<StepPair> pairs) {
  std::erase_if(pairs, [](const StepPair& pair) { return !pair.own->loss || !pair.other->loss; });
  if (pairs.empty()) return std::nullopt;
  LossComparison found{.steps = std::ssize(pairs)};
  found.largest = -1;
  for (const auto& [own, other] : pairs) {
    const double difference = std::abs(*own->loss - *other->loss);
    if (difference <= found.largest) continue;
    found.largest = difference;
    found.largest_at = own->step;
    found.own_there = *own->loss;
    found.other_there = *other->loss;
  }
  found.last_steps = std::min(kLastSteps, std::ssize(pairs));
  const auto first = pairs.end() - found.last_steps;
  for (auto pair = first; pair != pairs.end(); ++pair) {
    found.own_mean += *pair->own->loss / static_cast<double>(found.last_steps);
    found.other_mean += *pair->other->loss / static_cast<double>(found.last_steps);
  }
  found.first_of_last = first->own->step;
  found.last = pairs.back().own->step;
  return found;
}

/// The middle value, or the mean of the two in the middle.
double median_of(std::vector<double> values) {
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

/// Compares a figure that is above 0 wherever it was measured.
template <class Figure>
std::optional<StepRatios> compare_steps(std::vector<StepPair> pairs, Figure&& figure_of) {
  pairs.erase(pairs.begin(), pairs.begin() + std::ssize(pairs) / 10);
  std::vector<double> own, other, ratios;
  for (const StepPair& pair : pairs) {
    const double here = figure_of(*pair.own);
    const double there = figure_of(*pair.other);
    if (!(here > 0 && there > 0)) continue;
    own.push_back(here);
    other.push_back(there);
    ratios.push_back(here / there);
  }
  if (ratios.empty()) return std::nullopt;
  const auto [min, max] = std::ranges::minmax_element(ratios);
  return StepRatios{.steps = std::ssize(ratios),
                    .own_median = median_of(own),
                    .other_median = median_of(other),
                    .median = median_of(ratios),
                    .min = *min,
                    .max = *max};
}

void list_values(const std::string& key, const Json& value, std::map<std::string, Json>& values) {
  const auto is_group = [](const Json& item) { return item.is_object() || item.is_array(); };
  const bool is_list_of_groups = value.is_array() && std::ranges::any_of(value, is_group);
  const std::string prefix = key.empty() ? "" : key + ".";
  if (value.is_object() && !value.empty()) {
    for (const auto& [name, item] : value.items()) list_values(prefix + name, item, values);
  } else if (is_list_of_groups) {
    for (std::size_t i = 0; i < value.size(); ++i) list_values(str(prefix, i), value[i], values);
  } else if (!key.empty()) {
    values[key] = value;
  }
}

std::vector<KeyDifference> compare_keys(const RunRecord& run, const RunRecord& second) {
  const std::map<std::string, Json> own = read_values(run);
  const std::map<std::string, Json> other = read_values(second);
  std::map<std::string, KeyDifference> differences;
  for (const auto& [key, value] : own)
    differences[key] = {.key = key, .own = show_value(value), .other = std::nullopt};
  for (const auto& [key, value] : other) {
    const auto same = own.find(key);
    if (same != own.end() && same->second == value)
      differences.erase(key);
    else
      differences[key].key = key, differences[key].other = show_value(value);
  }
  std::vector<KeyDifference> list;
  for (const auto& [key, difference] : differences) list.push_back(difference);
  return list;
}

}  // namespace

std::map<std::string, Json> read_values(const RunRecord& run) {
  std::map<std::string, Json> values;
  const std::string where = (std::filesystem::path(run.directory) / "config.yaml").string();
  list_values("", config::parse_yaml_as_json(run.config, where), values);
  return values;
}

std::string show_value(const Json& value) {
  return value.is_string() ? value.get<std::string>()
                           : value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

double wall_seconds(const StepRecord& step) {
  double sum = 0;
  for (const auto& [phase, seconds] : step.seconds) sum += seconds;
  return sum;
}

RunComparison compare_runs(const RunRecord& run, RunRecord other) {
  const std::vector<StepPair> pairs = pair_steps(run.steps, other.steps);
  const bool same_name = run.name == other.name;
  RunComparison found{
      .other = {},
      .own_name = same_name ? run.directory : run.name,
      .other_name = same_name ? other.directory : other.name,
      .common_steps = std::ssize(pairs),
      .loss = compare_losses(pairs),
      .seconds = compare_steps(pairs, wall_seconds),
      .tokens_per_second = compare_steps(
          pairs, [](const StepRecord& step) { return step.tokens_per_second.value_or(0); }),
      .keys = compare_keys(run, other)};
  found.other = std::move(other);
  return found;
}

}  // namespace tributary::app
