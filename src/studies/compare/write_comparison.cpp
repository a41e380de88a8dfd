#include "studies/compare/write_comparison.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/text.h"
#include "studies/compare/planned_methods.h"
#include "studies/methods/all_methods.h"

namespace tributary::studies {
namespace {

using OrderedJson = nlohmann::ordered_json;

template <class Number>
OrderedJson or_null(const std::optional<Number>& number) {
  return number ? OrderedJson(*number) : OrderedJson(nullptr);
}

OrderedJson to_json(const MethodRun& run) {
  return {{"not_run", run.not_run},
          {"same_as", run.same_as},
          {"rounds_s", run.rounds_s},
          {"median_s", or_null(run.median_s())},
          {"failure", run.failure},
          {"exit_code", run.exit_code},
          {"loss_difference", run.loss_difference},
          {"plan_file", run.plan_file},
          {"directory", run.directory}};
}

OrderedJson to_json(const SettingRun& run) {
  return {{"rounds", run.rounds},
          {"steps", run.steps},
          {"warm_up_steps", run.warm_up_steps},
          {"config", run.config},
          {"profile", run.profile},
          {"note", run.note},
          {"pairs",
           {{"all", run.order.pairs},
            {"right", run.order.right},
            {"apart", run.order.apart},
            {"apart_right", run.order.apart_right}}}};
}

OrderedJson to_json(const MethodResult& method) {
  OrderedJson json{{"method", method.method},
                   {"source", method.source},
                   {"status", name_of(method.certificate.status)},
                   {"limit", method.certificate.limit},
                   {"step_s", method.step_s},
                   {"lower_bound_s", seconds_of(method.certificate.lower_bound)},
                   {"mfu", method.mfu},
                   {"idle_share", or_null(method.idle_share)},
                   {"bubble_share", or_null(method.bubble_share)},
                   {"occupancy", or_null(method.occupancy)},
                   {"min_occupancy", or_null(method.min_occupancy)},
                   {"plan", method.plan},
                   {"evaluations", method.certificate.evaluations},
                   {"milliseconds", method.milliseconds},
                   {"plan_file", name_of(method.plan_file)}};
  if (method.run) json["run"] = to_json(*method.run);
  return json;
}

OrderedJson to_json(const SettingResult& setting) {
  OrderedJson methods = OrderedJson::array();
  for (const MethodResult& method : setting.methods) methods.push_back(to_json(method));
  OrderedJson json{{"name", setting.name},
                   {"model", setting.model},
                   {"cluster", setting.cluster},
                   {"devices", setting.devices},
                   {"global_samples", setting.global_samples},
                   {"tokens_per_sample", setting.tokens_per_sample},
                   {"items_per_sample", setting.items_per_sample},
                   {"methods", std::move(methods)}};
  if (setting.run) json["run"] = to_json(*setting.run);
  return json;
}

OrderedJson to_json(const FigureResult& result) {
  const config::PublishedFigure& figure = result.figure;
  return {{"where", figure.where},
          {"quantity", name_of(figure.quantity)},
          {"setting", figure.setting},
          {"settings", figure.settings},
          {"method", figure.method},
          {"against", figure.against},
          {"against_setting", figure.against_setting},
          {"published", {figure.min, figure.max}},
          {"digits", or_null(figure.digits)},
          {"found", or_null(result.found)},
          {"deviation", result.found ? OrderedJson(result.deviation) : OrderedJson(nullptr)},
          {"measured", or_null(result.measured)}};
}

OrderedJson to_json(const OrderResult& result) {
  OrderedJson ranked = OrderedJson::array();
  for (const config::RankedMethod& each : result.order.ranked)
    ranked.push_back(
        {{"setting", each.setting}, {"method", each.method}, {"against", each.against}});
  return {{"where", result.order.where}, {"by", name_of(result.order.by)},
          {"ranked", std::move(ranked)}, {"values", result.values},
          {"holds", result.holds},       {"tie", result.is_tie},
          {"measured", result.measured}, {"measured_holds", result.measured_holds}};
}

}  // namespace

std::string_view name_of(PlanFile file) {
  switch (file) {
    case PlanFile::kNotAsked:
      return "not_asked";
    case PlanFile::kFits:
      return "fits";
    case PlanFile::kChanged:
      return "changed";
    case PlanFile::kTooLarge:
      return "too_large";
    case PlanFile::kNoForm:
      return "no_form";
  }
  return "";
}

std::string_view name_of(config::RankedBy by) {
  switch (by) {
    case config::RankedBy::kStep:
      return "step";
    case config::RankedBy::kMfu:
      return "mfu";
    case config::RankedBy::kSpeedup:
      return "speedup";
    case config::RankedBy::kOccupancy:
      return "occupancy";
  }
  return "";
}

std::string_view name_of(config::FigureQuantity quantity) {
  switch (quantity) {
    case config::FigureQuantity::kSpeedup:
      return "speedup";
    case config::FigureQuantity::kHours:
      return "hours";
    case config::FigureQuantity::kMfu:
      return "mfu";
    case config::FigureQuantity::kMfuGap:
      return "mfu_gap";
    case config::FigureQuantity::kIdleReduction:
      return "idle_reduction";
    case config::FigureQuantity::kBubbleReduction:
      return "bubble_reduction";
    case config::FigureQuantity::kOccupancy:
      return "occupancy";
    case config::FigureQuantity::kMinOccupancy:
      return "min_occupancy";
  }
  return "";
}

std::string note_on_search(const SettingResult& setting) {
  if (setting.find(kSearchMethod) == nullptr) return {};
  std::vector<std::pair<std::string_view, std::string>> outside;  // by what their plans have
  bool has_tables = false;
  for (const PipelineBaseline& baseline : pipeline_baselines()) {
    if (setting.find(baseline.name) == nullptr) continue;
    has_tables = true;
    if (baseline.beyond_search.empty()) continue;
    auto group = std::find_if(outside.begin(), outside.end(), [&](const auto& each) {
      return each.first == baseline.beyond_search;
    });
    if (group == outside.end()) group = outside.insert(outside.end(), {baseline.beyond_search, ""});
    group->second += str(group->second.empty() ? "" : ", ", baseline.name);
  }
  if (!has_tables) return {};
  std::string note =
      "search is judged by the simulator of the trainer's plans, the other rows by tables of equal "
      "layers, which spread embedding and head over all stages, hide most messages and have no "
      "update of weights: a smaller step of theirs need not be a better plan.";
  for (const auto& [what, methods] : outside)
    note += str(&what == &outside.front().first ? " Outside of its space: " : "; ", methods, " (",
                what, ")");
  return outside.empty() ? note : note + ".";
}

std::string write_comparison(const Comparison& comparison) {
  OrderedJson json{{"format", kComparisonFormat},     {"name", comparison.name},
                   {"source", comparison.source},     {"notes", comparison.notes},
                   {"against", comparison.against},   {"settings", OrderedJson::array()},
                   {"figures", OrderedJson::array()}, {"orders", OrderedJson::array()}};
  for (const SettingResult& setting : comparison.settings)
    json["settings"].push_back(to_json(setting));
  for (const FigureResult& figure : comparison.figures) json["figures"].push_back(to_json(figure));
  for (const OrderResult& order : comparison.orders) json["orders"].push_back(to_json(order));
  return json.dump(2) + "\n";
}

}  // namespace tributary::studies
