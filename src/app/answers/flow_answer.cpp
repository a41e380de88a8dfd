#include "app/answers/flow_answer.h"

#include <nlohmann/json.hpp>

#include "app/answers/certificate_json.h"
#include "config/reading/artifact_object.h"
#include "plan/flow/allocate_flow.h"

namespace tributary::app {
namespace {

using config::ArtifactObject;
using plan::FlowModule;

constexpr config::WholeRange kDevices = {1, 1 << 16};
constexpr config::WholeRange kPeriod = {1, config::kQuantityRange.max};

FlowModule read_module(ArtifactObject json) {
  FlowModule module = {.name = json.text("name", std::nullopt)};
  for (ArtifactObject& each : json.items("candidates")) {
    module.candidates.push_back({.devices = each.whole("devices", std::nullopt, kDevices),
                                 .period = {each.whole("period_ns", std::nullopt, kPeriod)}});
    each.refuse_unknown();
  }
  if (module.candidates.empty()) json.refuse("candidates", "a list of one candidate or more");
  json.refuse_unknown();
  return module;
}

Json module_json(const FlowModule& module, std::int32_t chosen) {
  const plan::FlowCandidate& candidate = module.candidates[chosen];
  return {{"name", module.name},
          {"candidate", chosen},
          {"devices", candidate.devices},
          {"period_ns", candidate.period.count}};
}

}  // namespace

Json answer_flow(const Json& json, std::string_view where) {
  config::Problems problems;
  ArtifactObject root(json, std::string(where), "", problems);
  plan::FlowProblem problem;
  for (const ArtifactObject& encoder : root.items("encoders")) {
    problem.encoders.push_back(read_module(encoder));
  }
  problem.backbone = read_module(root.object("backbone", true));
  problem.devices = root.whole("devices", std::nullopt, kDevices);
  const auto order =
      root.choice<plan::FlowOrder>("order", plan::FlowOrder::kExact, {"published", "exact"});
  root.refuse_unknown();
  problems.raise_if_any(std::string(where));

  const plan::FlowAllocation found = allocate_flow(problem, order);
  Json answer = to_json(found.certificate);
  answer["encoders"] = Json::array();
  if (found.chosen.empty()) {
    answer["backbone"] = nullptr;
  } else {
    for (std::size_t i = 0; i < problem.encoders.size(); ++i) {
      answer["encoders"].push_back(module_json(problem.encoders[i], found.chosen[i]));
    }
    answer["backbone"] = module_json(problem.backbone, found.chosen.back());
  }
  answer["production_ns"] = found.production.count;
  answer["consumption_ns"] = found.consumption.count;
  answer["devices"] = found.devices;
  return answer;
}

}  // namespace tributary::app
