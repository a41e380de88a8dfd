#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

#include "core/error.h"
#include "core/random.h"
#include "plan/calibrate/calibrate.h"

namespace tributary::plan {
namespace {

using Model = std::tuple<std::int64_t, std::int64_t, std::int64_t>;

Model model_of(const TrainingRow& row) { return {row.width, row.layers, row.devices}; }

void count_order(std::span<const TrainingRow> rows, std::span<const double> predicted,
                 PredictionError& error) {
  using Group = std::tuple<Model, std::int64_t, std::int64_t>;
  std::map<Group, std::vector<std::size_t>> groups;
  for (std::size_t i = 0; i < rows.size(); ++i)
    groups[{model_of(rows[i]), rows[i].global_batch, rows[i].sequence}].push_back(i);
  std::int64_t right = 0;
  for (const auto& [group, members] : groups) {
    for (std::size_t a = 0; a < members.size(); ++a) {
      for (std::size_t b = 0; b < a; ++b) {
        const double measured = *rows[members[a]].seconds - *rows[members[b]].seconds;
        if (measured == 0) continue;
        ++error.pairs;
        right += measured * (predicted[members[a]] - predicted[members[b]]) > 0 ? 1 : 0;
      }
    }
  }
  if (error.pairs > 0) error.order = static_cast<double>(right) / static_cast<double>(error.pairs);
}

}  // namespace

PredictionError judge_predictions(std::span<const TrainingRow> rows,
                                  std::span<const double> predicted) {
  TRIB_REQUIRE(rows.size() == predicted.size() && !rows.empty(),
               .what = "plan: predictions are not those of the rows");
  PredictionError error;
  std::vector<double> sizes;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    TRIB_REQUIRE(rows[i].seconds.has_value(), .what = "plan: row without a measured time",
                 .where = str("line ", rows[i].line));
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
  count_order(rows, predicted, error);
  return error;
}

std::vector<double> cross_validate(const config::Cluster& start, std::span<const TrainingRow> rows,
                                   int folds, std::uint64_t seed) {
  TRIB_REQUIRE(folds >= 2, .what = "plan: too few folds", .found = str(folds),
               .expected = "2 or more");
  std::set<Model> all;
  for (const TrainingRow& row : rows) all.insert(model_of(row));
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

}  // namespace tributary::plan
