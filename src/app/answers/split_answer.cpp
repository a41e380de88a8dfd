#include "app/answers/split_answer.h"

#include <nlohmann/json.hpp>

#include "app/answers/certificate_json.h"
#include "config/plan/plan_names.h"
#include "config/reading/artifact_object.h"
#include "plan/cut_layers/split_layers.h"

namespace tributary::app {
namespace {

using config::ArtifactObject;
using config::kQuantityRange;

constexpr config::WholeRange kCount = {1, 1 << 20};

/// Costs that are missing are 0; those of a recompute level that is missing are the level's below.
plan::UnitCosts read_unit(ArtifactObject& json) {
  const auto amount = [&](const char* key, std::int64_t standard) {
    return json.whole(key, standard, kQuantityRange);
  };
  plan::UnitCosts unit;
  unit.forward = {json.whole("forward_ns", std::nullopt, kQuantityRange)};
  unit.input_gradient = {amount("input_gradient_ns", 0)};
  unit.weight_gradient = {amount("weight_gradient_ns", 0)};
  unit.recompute_selective = {amount("recompute_selective_ns", 0)};
  unit.recompute_full = {amount("recompute_full_ns", unit.recompute_selective.count)};
  unit.state = {amount("state_bytes", 0)};
  unit.activation = {amount("activation_bytes", 0)};
  unit.activation_selective = {amount("activation_selective_bytes", unit.activation.count)};
  unit.activation_full = {amount("activation_full_bytes", unit.activation_selective.count)};
  json.refuse_unknown();
  return unit;
}

Json split_json(const plan::LayerSplit& split) {
  Json answer = to_json(split.certificate);
  answer["first_unit"] = split.first_unit;
  answer["recompute"] = Json::array();
  for (const config::RecomputePlan level : split.recompute) {
    answer["recompute"].push_back(config::plan_name_of(level));
  }
  answer["stage_ns"] = Json::array();
  for (const Nanoseconds time : split.stage_time) answer["stage_ns"].push_back(time.count);
  return answer;
}

}  // namespace

Json answer_split(const Json& json, std::string_view where) {
  config::Problems problems;
  ArtifactObject root(json, std::string(where), "", problems);
  plan::SplitProblem problem;
  for (ArtifactObject& unit : root.items("units")) problem.units.push_back(read_unit(unit));
  if (problem.units.empty()) root.refuse("units", "a list of one unit or more");
  problem.stages = root.whole("stages", std::nullopt, kCount);
  problem.microbatches = root.whole("microbatches", 1, kCount);
  problem.boundary = {root.whole("boundary_ns", 0, kQuantityRange)};
  if (root.has("memory_bytes")) problem.memory = {root.whole("memory_bytes", 0, kQuantityRange)};
  problem.stages_behind = root.whole("stages_behind", 0, {0, kCount.max});
  const bool polish = root.flag("polish", false);
  root.refuse_unknown();
  problems.raise_if_any(std::string(where));

  const plan::LayerSplit split = split_layers(problem);
  const bool has_plan = split.certificate.status != plan::Status::kInfeasible;
  return split_json(polish && has_plan ? polish_split(problem, split) : split);
}

}  // namespace tributary::app
