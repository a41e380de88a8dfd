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

/// The steps of a piece, so that `steps` make at most `max_points` pieces.
std::size_t piece_width(std::size_t steps, std::size_t max_points) {
  return std::max<std::size_t>(1, (steps + max_points - 1) / max_points);
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

/// The modules that have norms, in the order of the model; those that it does not name follow.
std::vector<std::string> list_modules(const RunRecord& run) {
  std::set<std::string> seen;
  for (const StepRecord& step : run.steps)
    for (const auto& [kind, by_module] : step.norms)
      for (const auto& [module, norm] : by_module) seen.insert(module);
  std::vector<std::string> modules;
  for (const ModuleRecord& module : run.modules)
    if (seen.erase(module.name) > 0) modules.push_back(module.name);
  modules.insert(modules.end(), seen.begin(), seen.end());
  return modules;
}

template <class Value>
Json module_curves(const std::vector<std::string>& modules, const Columns& columns,
                   Value&& value_of) {
  Json curves = Json::array();
  for (const std::string& module : modules)
    curves.push_back({{"name", module}, {"values", columns.column([&](const StepRecord& step) {
                                           return value_of(step, module);
                                         })}});
  return curves;
}

MaybeNumber norm_of(const StepRecord& step, const char* kind, const std::string& module) {
  const auto norms = step.norms.find(kind);
  return norms == step.norms.end() ? std::nullopt : find_number(norms->second, module);
}

/// How far updates moved the parameters, as shares of their norms, at the steps that measured it.
Json update_curves(const RunRecord& run, const std::vector<std::string>& modules,
                   std::size_t max_points) {
  std::vector<StepRecord> measured;
  for (const StepRecord& step : run.steps)
    if (step.norms.contains("update")) measured.push_back(step);
  const Columns columns(measured, piece_width(measured.size(), max_points));
  return {{"step", columns.step_numbers()},
          {"steps_per_point", columns.steps_per_point()},
          {"modules", module_curves(modules, columns, [](const auto& step, const auto& module) {
             const MaybeNumber update = norm_of(step, "update", module);
             const MaybeNumber parameters = norm_of(step, "parameters", module);
             return update && parameters ? MaybeNumber(*update / *parameters) : std::nullopt;
           })}};
}

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

/// The curves of what each source gave: its share so far, and the target tokens of a step.
Json source_curves(const RunRecord& run, const DrawnSources& drawn, const Columns& columns) {
  Json shares = Json::array();
  Json targets = Json::array();
  for (const SourceTotals& source : drawn.sources) {
    const auto place = [&](const StepRecord& step) { return &step - run.steps.data(); };
    shares.push_back({{"name", source.name},
                      {"asked", source.asked ? Json(*source.asked) : Json()},
                      {"values", columns.column([&](const StepRecord& step) {
                         return MaybeNumber(
                             source.share_so_far[static_cast<std::size_t>(place(step))]);
                       })}});
    targets.push_back(
        {{"name", source.name}, {"values", columns.column([&](const StepRecord& step) {
                                   const auto counts = step.drawn.find(source.name);
                                   return counts == step.drawn.end()
                                              ? std::nullopt
                                              : find_number(counts->second, "target_tokens");
                                 })}});
  }
  return {{"shares", shares}, {"targets", targets}};
}

}  // namespace

Json chart_data(const RunRecord& run, const DrawnSources& drawn, std::size_t max_points) {
  const std::vector<std::string> modules = list_modules(run);
  const Columns columns(run.steps, piece_width(run.steps.size(), max_points));
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
  const auto named = [&](std::map<std::string, double> StepRecord::*numbers,
                         std::initializer_list<std::pair<const char*, const char*>> names) {
    Json curves = Json::array();
    for (const auto& [key, name] : names)
      curves.push_back({{"name", name}, {"values", columns.column([&](const StepRecord& step) {
                                           return find_number(step.*numbers, key);
                                         })}});
    return curves;
  };
  const auto column = [&](MaybeNumber StepRecord::*field) {
    return columns.column([field](const StepRecord& step) { return step.*field; });
  };
  return {
      {"step", columns.step_numbers()},
      {"steps_per_point", columns.steps_per_point()},
      {"loss", column(&StepRecord::loss)},
      {"loss_by_source", by_source},
      {"learning_rate", column(&StepRecord::learning_rate)},
      {"grad_norm", column(&StepRecord::grad_norm)},
      {"grad_norm_by_module", module_curves(modules, columns,
                                            [](const auto& step, const auto& module) {
                                              return norm_of(step, "gradient", module);
                                            })},
      {"updates", update_curves(run, modules, max_points)},
      {"drawn", source_curves(run, drawn, columns)},
      {"tokens_per_second", column(&StepRecord::tokens_per_second)},
      {"seconds", seconds},
      {"fill", column(&StepRecord::fill)},
      {"padding", column(&StepRecord::padding)},
      {"mfu", column(&StepRecord::mfu)},
      {"hfu", column(&StepRecord::hfu)},
      {"waiting", named(&StepRecord::waiting, {{"samples", "samples"}, {"packing", "packing"}})},
      {"flow",
       named(&StepRecord::flow, {{"starved", "waiting for features"}, {"encoding", "encoding"}})},
      {"encoders", named(&StepRecord::flow, {{"encoder_seconds", "there"},
                                             {"encoder_busy", "encoding"},
                                             {"encoder_blocked", "without room"}})},
      {"rates", named(&StepRecord::flow, {{"encoder_rate", "encoders, while they work"},
                                          {"backbone_rate", "backbone, while it works"}})},
      {"members", named(&StepRecord::flow, {{"encoders", "there"}, {"wanted", "wanted"}})},
      {"pool", named(&StepRecord::flow, {{"pool_bytes", "features"}})},
      {"bytes", column(&StepRecord::bytes)},
      {"validation", validation_columns(run.validations)}};
}

Json loss_curves(const RunRecord& run, const RunComparison& comparison, std::size_t max_points) {
  const RunRecord& other = comparison.other;
  const std::size_t width = piece_width(std::max(run.steps.size(), other.steps.size()), max_points);
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
