#include "app/report/chart_data.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

namespace tributary::app {
namespace {

/// The phases of a step, in order; other phases follow by name.
std::vector<std::string> list_phases(const std::vector<StepRecord>& steps) {
  std::vector<std::string> phases{"data", "forward", "backward", "optimizer", "other"};
  std::set<std::string> seen;
  for (const StepRecord& step : steps)
    for (const auto& [phase, seconds] : step.seconds) seen.insert(phase);
  std::erase_if(phases, [&](const std::string& phase) { return seen.erase(phase) == 0; });
  phases.insert(phases.end(), seen.begin(), seen.end());
  return phases;
}

template <class Map>
MaybeNumber find_number(const Map& map, const std::string& key) {
  const auto entry = map.find(key);
  return entry == map.end() ? std::nullopt : MaybeNumber(entry->second);
}

/// The steps of a piece, so that `steps` make at most `most_points` pieces.
std::size_t piece_width(std::size_t steps, std::size_t most_points) {
  return std::max<std::size_t>(1, (steps + most_points - 1) / most_points);
}

/// Columns of means over pieces of the run; a piece without a value is null.
class Columns {
 public:
  Columns(const std::vector<StepRecord>& steps, std::size_t width) : steps_(steps), width_(width) {}

  template <class Value>
  [[nodiscard]] Json column(Value&& value_of) const {
    Json values = Json::array();
    for (std::size_t first = 0; first < steps_.size(); first += width_) {
      double sum = 0;
      int count = 0;
      for (std::size_t i = first; i < std::min(first + width_, steps_.size()); ++i) {
        const MaybeNumber value = value_of(steps_[i]);
        if (!value) continue;
        sum += *value;
        ++count;
      }
      values.push_back(count == 0 ? Json(nullptr) : Json(sum / count));
    }
    return values;
  }
  /// The number of the last step of each piece.
  [[nodiscard]] Json step_numbers() const {
    Json numbers = Json::array();
    for (std::size_t first = 0; first < steps_.size(); first += width_)
      numbers.push_back(steps_[std::min(first + width_, steps_.size()) - 1].step);
    return numbers;
  }
  [[nodiscard]] std::size_t steps_per_point() const { return width_; }

 private:
  const std::vector<StepRecord>& steps_;
  std::size_t width_;
};

Json validation_columns(const std::vector<ValidationRecord>& validations) {
  std::set<std::string> names;
  for (const ValidationRecord& each : validations)
    for (const auto& [name, value] : each.accuracy) names.insert(name);
  Json steps = Json::array();
  Json loss = Json::array();
  Json accuracy = Json::object();
  const auto or_null = [](const MaybeNumber& value) { return value ? Json(*value) : Json(); };
  for (const ValidationRecord& each : validations) {
    steps.push_back(each.step);
    loss.push_back(or_null(each.loss));
    for (const std::string& name : names)
      accuracy[name].push_back(or_null(find_number(each.accuracy, name)));
  }
  return {{"step", steps}, {"loss", loss}, {"accuracy", accuracy}};
}

}  // namespace

Json chart_data(const RunRecord& run, std::size_t most_points) {
  const Columns columns(run.steps, piece_width(run.steps.size(), most_points));
  std::set<std::string> sources;
  for (const StepRecord& step : run.steps)
    for (const auto& [source, loss] : step.loss_by_source) sources.insert(source);
  Json by_source = Json::array();
  for (const std::string& source : sources)
    by_source.push_back({{"name", source}, {"values", columns.column([&](const StepRecord& step) {
                                              return find_number(step.loss_by_source, source);
                                            })}});
  Json seconds = Json::array();
  for (const std::string& phase : list_phases(run.steps))
    seconds.push_back({{"name", phase}, {"values", columns.column([&](const StepRecord& step) {
                                           return find_number(step.seconds, phase);
                                         })}});
  Json waiting = Json::array();
  for (const char* kind : {"samples", "packing"})
    waiting.push_back({{"name", kind}, {"values", columns.column([&](const StepRecord& step) {
                                          return find_number(step.waiting, kind);
                                        })}});
  const auto column = [&](MaybeNumber StepRecord::*field) {
    return columns.column([field](const StepRecord& step) { return step.*field; });
  };
  return {{"step", columns.step_numbers()},
          {"steps_per_point", columns.steps_per_point()},
          {"loss", column(&StepRecord::loss)},
          {"loss_by_source", by_source},
          {"learning_rate", column(&StepRecord::learning_rate)},
          {"grad_norm", column(&StepRecord::grad_norm)},
          {"tokens_per_second", column(&StepRecord::tokens_per_second)},
          {"seconds", seconds},
          {"fill", column(&StepRecord::fill)},
          {"padding", column(&StepRecord::padding)},
          {"mfu", column(&StepRecord::mfu)},
          {"hfu", column(&StepRecord::hfu)},
          {"waiting", waiting},
          {"bytes", column(&StepRecord::bytes)},
          {"validation", validation_columns(run.validations)}};
}

Json loss_curves(const RunRecord& run, const RunComparison& comparison, std::size_t most_points) {
  const RunRecord& other = comparison.other;
  const std::size_t width =
      piece_width(std::max(run.steps.size(), other.steps.size()), most_points);
  const auto curve = [width](const std::string& name, const std::vector<StepRecord>& steps) {
    const Columns columns(steps, width);
    return Json{{"name", name},
                {"step", columns.step_numbers()},
                {"steps_per_point", width},
                {"loss", columns.column([](const StepRecord& step) { return step.loss; })}};
  };
  return Json::array(
      {curve(comparison.own_name, run.steps), curve(comparison.other_name, other.steps)});
}

}  // namespace tributary::app
