#include "app/answers/search_answer.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "app/answers/plan_answer.h"
#include "core/error.h"
#include "core/nearest_name.h"
#include "core/stopwatch.h"
#include "studies/compare/planned_methods.h"
#include "studies/dflop/search_3d.h"
#include "studies/methods/all_methods.h"
#include "studies/methods/sharing/sharing_baselines.h"

namespace tributary::app {
namespace {

using studies::PipelineBaseline;

using Levels = std::span<const studies::RecomputedTables>;

/// The best plans over all levels of recompute.
SearchAnswer solve_published(Levels levels, std::int64_t keep) {
  const Stopwatch watch;
  SearchAnswer answer;
  answer.method = kPublishedObjective;
  for (const studies::RecomputedTables& tables : levels) {
    const studies::Search3dResult found = search_3d(tables.problem.costs, {.keep = keep});
    const bool is_first = &tables == &levels.front();
    answer.certificate = is_first ? found.certificate : join(answer.certificate, found.certificate);
    for (const studies::Plan3d& one : found.plans)
      answer.plans.push_back(
          {describe(one) + tables.name, one.seconds, one, form_of(one), tables.recompute});
  }
  std::ranges::stable_sort(answer.plans, {}, &MethodPlan::seconds);
  answer.plans.resize(std::min(answer.plans.size(), static_cast<std::size_t>(keep)));
  answer.milliseconds = 1e3 * watch.seconds();
  return answer;
}

SearchAnswer solve_baseline(const PipelineBaseline& baseline, Levels levels) {
  const Stopwatch watch;
  const auto [found, tables] = solve_levels(baseline, levels);
  SearchAnswer answer = {.method = std::string(baseline.name),
                         .certificate = found.certificate,
                         .plans = {},
                         .milliseconds = 1e3 * watch.seconds()};
  if (!found.plan.empty())
    answer.plans.push_back({found.plan, seconds_of(found.certificate.value), std::nullopt,
                            found.form, tables->recompute});
  return answer;
}

/// Refuses methods of other verbs, which do not plan an encoder and a backbone by a cost table.
void refuse_of_elsewhere(Caller caller, const std::string& method, const std::string& where) {
  const bool is_python = caller == Caller::kPython;
  TRIB_REQUIRE(method != kSearch && method != kFormerSearch,
               .what = "app: search plans a model, not a cost table", .where = where,
               .found = method,
               .expected = is_python ? "a method of a cost table, or `plan` for a model"
                                     : "a method of a cost table, or a model as CONFIG");
  TRIB_REQUIRE(
      method != studies::kVeomniMethod, .what = "app: method of `compare` alone", .where = where,
      .found = method,
      .expected = "a study whose `methods` list it and whose settings give `ulysses`, `ep`",
      .fix = "tributary compare, docs/formats/study.md");
  const auto sharing = studies::sharing_baselines();
  TRIB_REQUIRE(std::none_of(sharing.begin(), sharing.end(),
                            [&](const auto& baseline) { return baseline.name == method; }),
               .what = "app: method for modules that share devices", .where = where,
               .found = method, .expected = "a graph of modules with times on devices and parts",
               .fix = is_python ? "group_stages, or tributary compare with a study of kind sharing"
                                : "tributary compare with a study of kind sharing, or group_stages "
                                  "in Python");
}

Json degrees_json(const studies::Degrees& degrees) {
  return {{"tp", degrees.tp}, {"pp", degrees.pp}, {"dp", degrees.dp}};
}

}  // namespace

std::vector<std::string> search_methods() {
  std::vector<std::string> names = {kPublishedObjective};
  for (const PipelineBaseline& baseline : studies::pipeline_baselines()) {
    names.emplace_back(baseline.name);
  }
  return names;
}

void check_request(const SearchRequest& request) {
  TRIB_REQUIRE(request.keep >= 1 && request.keep <= 1000, .what = "app: value cannot be used",
               .where = argument_name(request.caller, "keep"), .found = str(request.keep),
               .expected = "1 to 1000");
  const std::vector<std::string> known = search_methods();
  const std::string& method = request.method;
  if (method == kAllMethods || std::find(known.begin(), known.end(), method) != known.end()) return;
  const std::string where = argument_name(request.caller, "method");
  refuse_of_elsewhere(request.caller, method, where);
  std::vector<std::string> names = known;
  if (request.caller == Caller::kCommandLine) names.insert(names.begin(), {kSearch, kAllMethods});
  std::string list;
  for (const std::string& name : names)
    list += str(list.empty() ? "" : ", ", name, name == kSearch ? " (of models)" : "");
  const std::string nearest = nearest_name(method, names);
  TRIB_RAISE(Fault::kInput, .what = "app: unknown method", .where = where, .found = method,
             .expected = str("one of ", list),
             .fix = nearest.empty() ? "" : str("did you mean ", nearest, "?"));
}

std::string beyond_trainer(const SearchAnswer& answer) {
  for (const PipelineBaseline& baseline : studies::pipeline_baselines()) {
    if (baseline.name != answer.method || baseline.beyond_search.empty()) continue;
    if (baseline.role == studies::BaselineRole::kBound)
      return str("its best one is of a family that those lack: ", answer.plans.front().text);
    return str("it has ", baseline.beyond_search);
  }
  return "it has none of their forms";
}

std::vector<SearchAnswer> answer_search(const SearchRequest& request, Levels levels) {
  check_request(request);
  TRIB_REQUIRE(
      request.method == kPublishedObjective || !levels.front().problem.batches.empty(),
      .what = "app: no batch to judge plans by", .where = str(request.table, " batches"),
      .found = "no such key", .expected = str("batches for method ", request.method),
      .fix = R"(add "batches": {"mixture_seed": 1, "count": 2}, docs/formats/cost_table.md)");
  const bool all = request.method == kAllMethods;
  std::vector<SearchAnswer> answers;
  if (all || request.method == kPublishedObjective) {
    answers.push_back(solve_published(levels, all ? 1 : request.keep));
  }
  for (const PipelineBaseline& baseline : studies::pipeline_baselines()) {
    if (all || request.method == baseline.name) {
      answers.push_back(solve_baseline(baseline, levels));
    }
  }
  return answers;
}

Json to_json(const SearchAnswer& answer) {
  Json plans = Json::array();
  for (const MethodPlan& found : answer.plans) {
    Json plan = {{"plan", found.text}, {"step_s", found.seconds}};
    if (found.exact) {
      plan["encoder"] = degrees_json(found.exact->encoder);
      plan["backbone"] = degrees_json(found.exact->backbone);
      plan["microbatches"] = found.exact->microbatches;
    }
    plans.push_back(std::move(plan));
  }
  return {{"method", answer.method},
          {"status", name_of(answer.certificate.status)},
          {"value", seconds_of(answer.certificate.value)},
          {"lower_bound", seconds_of(answer.certificate.lower_bound)},
          {"gap", answer.certificate.gap()},
          {"evaluations", answer.certificate.evaluations},
          {"milliseconds", answer.milliseconds},
          {"limit", answer.certificate.limit},
          {"plans", plans}};
}

}  // namespace tributary::app
