#include "app/answers/action_list_answer.h"

#include <nlohmann/json.hpp>

#include "schedule/pipeline/lower_schedule.h"
#include "schedule/pipeline/plan_pipeline.h"

namespace tributary::app {
namespace {

Json action_json(const schedule::Action& action) {
  Json json = {
      {"op", name_of(action.op)}, {"chunk", action.chunk}, {"microbatch", action.microbatch}};
  if (action.peer >= 0) json["peer"] = action.peer;
  return json;
}

}  // namespace

Json answer_action_lists(const config::Plan& plan) {
  const schedule::Pipeline pipeline = schedule::pipeline_of(plan);
  const schedule::PipelineMap map(pipeline);
  const schedule::Schedule lowered =
      lower_schedule(schedule::schedule_passes(pipeline), schedule::Buffers{});
  std::vector<Json> ranks(static_cast<std::size_t>(map.lanes()), Json::array());
  const std::vector<std::vector<int>> lanes_of = schedule::lanes_of_ranks(plan, map);
  for (std::size_t rank = 0; rank < lanes_of.size(); ++rank)
    for (const int lane : lanes_of[rank]) ranks[lane].push_back(rank);
  Json lanes = Json::array();
  for (int lane = 0; lane < map.lanes(); ++lane) {
    const schedule::Lane at = map.at(lane);
    Json actions = Json::array();
    for (const schedule::Action& action : lowered.lists[lane]) {
      actions.push_back(action_json(action));
    }
    lanes.push_back({{"name", map.describe(lane)},
                     {"module", pipeline.modules[at.module].name},
                     {"replica", at.replica},
                     {"stage", at.stage},
                     {"ranks", ranks[lane]},
                     {"in_flight", lowered.in_flight[lane]},
                     {"actions", std::move(actions)}});
  }
  return lanes;
}

}  // namespace tributary::app
