#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

#include "core/error.h"
#include "core/random.h"
#include "cost/calibrate/calibrate.h"

namespace tributary::cost {
namespace {

using Model = std::tuple<std::int64_t, std::int64_t, std::int64_t>;

Model model_of(const TrainingRow& row) { return {row.width, row.layers, row.devices}; }

std::set<Model> models_of(std::span<const TrainingRow> rows) {
  std::set<Model> models;
  for (const TrainingRow& row : rows) models.insert(model_of(row));
  return models;
}

/// A row of a group: what was measured and what was predicted.
using Times = std::pair<double, double>;

/// Counts pairs with unequal measured times whose predictions are in the same order, by a merge
/// sort on the predictions. `times` ascend by measured time, and within equal ones descend by
/// prediction, so that equal times add no pair; neither do equal predictions.
std::int64_t count_right_pairs(std::span<Times> times, std::vector<Times>& merged) {
  if (times.size() < 2) return 0;
  const std::span<Times> earlier = times.first(times.size() / 2);
  const std::span<Times> later = times.subspan(times.size() / 2);
  std::int64_t right = count_right_pairs(earlier, merged) + count_right_pairs(later, merged);
  const auto by_prediction = [](const Times& a, const Times& b) { return a.second < b.second; };
  auto below = earlier.begin();
  for (const Times& time : later) {
    while (below != earlier.end() && by_prediction(*below, time)) ++below;
    right += below - earlier.begin();
  }
  merged.resize(times.size());
  std::merge(earlier.begin(), earlier.end(), later.begin(), later.end(), merged.begin(),
             by_prediction);
  std::copy(merged.begin(), merged.end(), times.begin());
  return right;
}

/// Counts pairs with unequal measured times.
std::int64_t count_comparable_pairs(std::span<const Times> sorted) {
  std::int64_t pairs = 0;
  for (std::size_t begin = 0, end = 0; begin < sorted.size(); begin = end) {
    while (end < sorted.size() && sorted[end].first == sorted[begin].first) ++end;
    pairs += static_cast<std::int64_t>(begin * (end - begin));
  }
  return pairs;
}

/// The cost of choosing the row predicted fastest instead of the best row of a group.
double regret_of(std::span<const Times> times) {
  const auto best = std::min_element(times.begin(), times.end());
  const auto chosen =
      std::min_element(times.begin(), times.end(), [](const Times& a, const Times& b) {
        return a.second != b.second ? a.second < b.second : a.first > b.first;
      });
  return chosen->first / best->first - 1;
}

void judge_groups(std::span<const TrainingRow> rows, std::span<const double> predicted,
                  PredictionError& error) {
  using Group = std::tuple<Model, std::int64_t, std::int64_t>;
  std::map<Group, std::vector<Times>> groups;
  for (std::size_t i = 0; i < rows.size(); ++i)
    groups[{model_of(rows[i]), rows[i].global_batch, rows[i].sequence}].emplace_back(
        *rows[i].seconds, predicted[i]);
  std::int64_t right = 0;
  std::vector<Times> merged;
  for (auto& [group, times] : groups) {
    std::sort(times.begin(), times.end(), [](const Times& a, const Times& b) {
      return a.first != b.first ? a.first < b.first : a.second > b.second;
    });
    const std::int64_t pairs = count_comparable_pairs(times);
    if (pairs == 0) continue;
    const double regret = regret_of(times);
    error.regret += regret;
    error.highest_regret = std::max(error.highest_regret, regret);
    ++error.groups;
    error.pairs += pairs;
    right += count_right_pairs(times, merged);
  }
  if (error.pairs == 0) return;
  error.order = static_cast<double>(right) / static_cast<double>(error.pairs);
  error.regret /= static_cast<double>(error.groups);
}

}  // namespace

PredictionError judge_predictions(std::span<const TrainingRow> rows,
                                  std::span<const double> predicted) {
  TRIB_REQUIRE(rows.size() == predicted.size() && !rows.empty(),
               .what = "cost: predictions are not those of the rows");
  PredictionError error;
  std::vector<double> sizes;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    TRIB_REQUIRE(rows[i].seconds.has_value(), .what = "cost: row without a measured time",
                 .where = rows[i].place());
    const double off = predicted[i] / *rows[i].seconds - 1;
    error.bias += off;
    sizes.push_back(std::abs(off));
  }
  const auto count = static_cast<double>(rows.size());
  error.bias /= count;
  error.mean = std::accumulate(sizes.begin(), sizes.end(), 0.0) / count;
  std::sort(sizes.begin(), sizes.end());
  error.median = sizes[sizes.size() / 2];
  error.highest = sizes.back();
  judge_groups(rows, predicted, error);
  return error;
}

void check_folds(std::span<const TrainingRow> rows) {
  if (models_of(rows).size() >= 2) return;
  TRIB_RAISE(Fault::kInput, .what = "cost: rows of one configuration cannot check a fit",
             .where = rows.empty() ? "" : rows.front().place(),
             .found = "no row of another hidden size, number of layers or GPUs",
             .expected = "rows of two configurations at least: one to fit, one to check",
             .fix = "add rows, or fit without the check: --folds 0");
}

std::vector<double> cross_validate(const config::Cluster& start, std::span<const TrainingRow> rows,
                                   int folds, std::uint64_t seed) {
  TRIB_REQUIRE(folds >= 2, .what = "cost: too few folds", .found = str(folds),
               .expected = "2 or more");
  check_folds(rows);
  const std::set<Model> all = models_of(rows);
  std::vector<Model> models(all.begin(), all.end());
  RandomStream(seed, "folds").shuffle(std::span<Model>(models));
  std::map<Model, int> fold_of;
  for (std::size_t i = 0; i < models.size(); ++i) fold_of[models[i]] = static_cast<int>(i) % folds;
  std::vector<double> predicted(rows.size());
  for (int fold = 0; fold < folds; ++fold) {
    std::vector<TrainingRow> others;
    for (const TrainingRow& row : rows)
      if (fold_of[model_of(row)] != fold) others.push_back(row);
    if (others.size() == rows.size()) continue;
    const config::Cluster fitted = fit_rows(start, others);
    for (std::size_t i = 0; i < rows.size(); ++i)
      if (fold_of[model_of(rows[i])] == fold) predicted[i] = step_seconds(fitted, rows[i]);
  }
  return predicted;
}

}  // namespace tributary::cost
