#include "app/answers/staging_answer.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "app/answers/certificate_json.h"
#include "app/requests/given_options.h"
#include "config/reading/artifact_object.h"
#include "plan/sharing/fit_interference.h"
#include "plan/sharing/staging.h"
#include "studies/methods/sharing/sharing_baselines.h"

namespace tributary::app {
namespace {

using config::ArtifactObject;
using config::kQuantityRange;
using plan::SharedModule;
using plan::SharingProblem;

constexpr const char* kProven = "exact";
constexpr const char* kMosaic = "mosaic";

/// The rows of a table of whole numbers, one after another.
std::vector<Nanoseconds> read_times(ArtifactObject& json) {
  const std::string expected =
      "a row for each number of devices 1, 2, 4, ..., in it the nanoseconds with each number of "
      "share units";
  std::vector<Nanoseconds> times;
  const Json* rows = json.find("times_ns");
  bool is_good = rows != nullptr && rows->is_array();
  for (std::size_t width = 0; is_good && width < rows->size(); ++width) {
    is_good = (*rows)[width].is_array();
    for (std::size_t unit = 0; is_good && unit < (*rows)[width].size(); ++unit) {
      const Json& time = (*rows)[width][unit];
      is_good = time.is_number_integer() && time.get<double>() >= 1 && time.get<double>() < 1e15;
      if (is_good) times.push_back({time.get<std::int64_t>()});
    }
  }
  if (!is_good) json.refuse("times_ns", expected);
  return times;
}

/// A list of numbers of 0 or above; empty when there is none.
template <class Number>
std::vector<Number> read_list(ArtifactObject& json, const std::string& key) {
  std::vector<Number> list;
  const Json* given = json.find(key);
  if (given == nullptr) return list;
  bool is_good = given->is_array();
  for (std::size_t i = 0; is_good && i < given->size(); ++i) {
    is_good = (*given)[i].is_number() && (*given)[i].template get<double>() >= 0 &&
              (*given)[i].template get<double>() < 9e15;
    if (is_good) list.push_back((*given)[i].template get<Number>());
  }
  if (!is_good) json.refuse(key, "a list of numbers of 0 or above");
  return list;
}

/// The indices of the modules that must end before; JSON names them, and they are listed earlier.
std::vector<std::int32_t> read_after(ArtifactObject& json,
                                     const std::vector<SharedModule>& before) {
  std::vector<std::int32_t> after;
  const Json* given = json.find("after");
  if (given == nullptr) return after;
  bool is_good = given->is_array();
  for (std::size_t i = 0; is_good && i < given->size(); ++i) {
    const auto found = std::ranges::find_if(
        before, [&](const SharedModule& module) { return (*given)[i] == Json(module.name); });
    is_good = found != before.end();
    if (is_good) after.push_back(static_cast<std::int32_t>(found - before.begin()));
  }
  if (!is_good) json.refuse("after", "names of modules that stand earlier in the list");
  return after;
}

SharedModule read_module(ArtifactObject& json, const std::vector<SharedModule>& before) {
  SharedModule module = {.name = json.text("name", std::nullopt)};
  const bool is_taken = std::ranges::any_of(
      before, [&](const SharedModule& other) { return other.name == module.name; });
  if (is_taken) json.refuse("name", "a name that no other module has");
  module.after = read_after(json, before);
  module.times = read_times(json);
  module.bandwidth = read_list<double>(json, "bandwidth");
  for (const std::int64_t bytes : read_list<std::int64_t>(json, "memory_bytes")) {
    module.memory.push_back({bytes});
  }
  json.refuse_unknown();
  return module;
}

using Form = plan::Interference::Form;

const std::vector<std::string>& form_names() {
  static const std::vector<std::string> names = {"none", "pairwise", "published"};
  return names;
}

plan::Interference read_interference(ArtifactObject json) {
  plan::Interference interference;
  interference.form = json.choice<Form>("form", Form::kNone, form_names());
  interference.base = json.number("base", 0, 0, 1e15);
  interference.sum = json.number("sum", 0, 0, 1e15);
  interference.pair = json.number("pair", 0, 0, 1e15);
  json.refuse_unknown();
  return interference;
}

Json staging_json(const SharingProblem& problem, const plan::Staging& staging) {
  Json answer = to_json(staging.certificate);
  answer["stages"] = Json::array();
  for (const plan::SharedStage& stage : staging.stages) {
    Json modules = Json::array();
    for (const plan::PlacedModule& placed : stage.placed) {
      modules.push_back({{"name", problem.modules[placed.module].name},
                         {"devices", placed.devices},
                         {"first_device", placed.first_device},
                         {"share_units", placed.share},
                         {"time_ns", placed.time.count}});
    }
    answer["stages"].push_back({{"time_ns", stage.time.count}, {"modules", modules}});
  }
  return answer;
}

/// The answer of systems whose modules have whole devices: no share and no position on them.
Json waves_json(const SharingProblem& problem, const studies::SharingAnswer& found) {
  Json answer = to_json(found.certificate);
  answer["stages"] = Json::array();
  for (const studies::BaselineWave& wave : found.waves) {
    Json modules = Json::array();
    for (const studies::WaveModule& each : wave.modules)
      modules.push_back({{"name", problem.modules[each.module].name}, {"devices", each.devices}});
    answer["stages"].push_back({{"time_ns", wave.time.count}, {"modules", modules}});
  }
  return answer;
}

/// Refuses `evaluations` for methods that do not search: only searches count stages.
void refuse_idle_evaluations(const Json& given, const std::string& method) {
  if (method == kProven || method == kMosaic || !given.contains("evaluations")) return;
  const GivenOptions options([] { return std::vector<std::string>{"--evaluations"}; },
                             Caller::kPython);
  options.refuse({"--evaluations"}, str("method ", method),
                 str("method ", kProven, " or ", kMosaic));
}

Json solve(const SharingProblem& problem, const std::string& method,
           const plan::StagingEffort& effort) {
  if (method == kProven) return staging_json(problem, group_stages(problem, effort));
  if (method == kMosaic) return staging_json(problem, merge_stages(problem, effort));
  for (const studies::SharingBaseline& baseline : studies::sharing_baselines()) {
    if (baseline.name == method) return waves_json(problem, baseline.solve(problem));
  }
  TRIB_RAISE(Fault::kBug, .what = "app: method without a function", .found = method);
}

}  // namespace

std::vector<std::string> staging_methods() {
  std::vector<std::string> names = {kProven};
  for (const studies::SharingBaseline& baseline : studies::sharing_baselines()) {
    if (baseline.name != kProven) names.emplace_back(baseline.name);
  }
  return names;
}

Json answer_staging(const Json& json, std::string_view where) {
  config::Problems problems;
  ArtifactObject root(json, std::string(where), "", problems);
  SharingProblem problem;
  for (ArtifactObject& module : root.items("modules")) {
    problem.modules.push_back(read_module(module, problem.modules));
  }
  problem.devices = root.whole("devices", std::nullopt, {1, plan::kMaxSharingDevices});
  problem.units = root.whole("units", 10, {1, plan::kMaxShareUnits});
  if (root.has("memory_bytes")) problem.memory = {root.whole("memory_bytes", 0, kQuantityRange)};
  problem.interference = read_interference(root.object("interference", false));
  const std::vector<std::string> methods = staging_methods();
  const auto method = root.choice<std::size_t>("method", 0, methods);
  plan::StagingEffort effort;
  effort.evaluations = root.whole("evaluations", effort.evaluations, {1, kQuantityRange.max});
  root.refuse_unknown();
  problems.raise_if_any(std::string(where));
  refuse_idle_evaluations(json, methods[method]);
  return solve(problem, methods[method], effort);
}

Json answer_interference(const Json& json, std::string_view where) {
  config::Problems problems;
  ArtifactObject root(json, std::string(where), "", problems);
  std::vector<plan::CoLocation> points;
  for (ArtifactObject& point : root.items("points")) {
    points.push_back({.alone = {point.whole("alone_ns", std::nullopt, kQuantityRange)},
                      .together = {point.whole("together_ns", std::nullopt, kQuantityRange)},
                      .bandwidth = read_list<double>(point, "bandwidth")});
    point.refuse_unknown();
  }
  const Form form = root.choice<Form>("form", Form::kNone, form_names());
  root.refuse_unknown();
  problems.raise_if_any(std::string(where));
  const plan::InterferenceFit fit =
      form == Form::kNone ? plan::fit_interference(points) : plan::fit_interference(points, form);
  const plan::Interference& found = fit.interference;
  return {{"interference",
           {{"form", form_names()[static_cast<std::size_t>(found.form)]},
            {"base", found.base},
            {"sum", found.sum},
            {"pair", found.pair}}},
          {"error", fit.error},
          {"error_in_fit", fit.error_in_fit},
          {"held_out", fit.held_out}};
}

}  // namespace tributary::app
