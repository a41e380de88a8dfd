#include "train/executor/step_schedule.h"

#include <algorithm>
#include <array>
#include <set>
#include <span>
#include <utility>

#include "schedule/pipeline/count_rounds.h"
#include "schedule/pipeline/lower_schedule.h"

namespace tributary::train {
namespace {

using schedule::ActionList;

bool is_of_forward(const schedule::Action& action) {
  using schedule::Op;
  return action.op == Op::kForward || action.op == Op::kSendFeatures;
}

/// Adds actions of a lane. Turns only say what the order is.
void append(int lane, std::span<const schedule::Action> own, std::vector<LaneAction>& actions) {
  for (const schedule::Action& action : own)
    if (!schedule::is_turn(action.op)) actions.push_back({.lane = lane, .action = action});
}

/// Joins the lists of lanes that take turns on a rank: each goes on until it waits for another one.
void join_turns(std::span<const int> lanes, const std::vector<ActionList>& lists,
                std::vector<LaneAction>& actions) {
  std::set<std::array<int, 3>> given;  // from, to, number
  std::vector<std::span<const schedule::Action>> left;
  for (const int lane : lanes) left.emplace_back(lists[static_cast<std::size_t>(lane)]);
  const auto waits = [&](int lane, const schedule::Action& action) {
    return action.op == schedule::Op::kReceiveTurn &&
           std::ranges::find(lanes, action.peer) != lanes.end() &&
           !given.contains({action.peer, lane, action.microbatch});
  };
  for (bool goes_on = true; goes_on;) {
    goes_on = false;
    for (std::size_t i = 0; i < lanes.size(); ++i)
      for (; !left[i].empty() && !waits(lanes[i], left[i].front()); left[i] = left[i].subspan(1)) {
        const schedule::Action& action = left[i].front();
        if (action.op == schedule::Op::kSendTurn)
          given.insert({lanes[i], action.peer, action.microbatch});
        append(lanes[i], left[i].first(1), actions);
        goes_on = true;
      }
  }
}

}  // namespace

std::vector<LaneAction> actions_ahead(const RunLanes& run, const std::vector<LaneAction>& actions) {
  const schedule::PipelineMap map(run.pipeline);
  std::vector<LaneAction> ahead;
  std::ranges::copy_if(actions, std::back_inserter(ahead), [&](const LaneAction& each) {
    const bool receives = each.action.op == schedule::Op::kReceiveFeatures;
    return map.is_ahead(each.lane) || (receives && map.carries_ahead(each.action.peer));
  });
  return ahead;
}

StepSchedule schedule_step(const RunLanes& run, std::int64_t microbatches,
                           std::int64_t next_microbatches) {
  schedule::Pipeline pipeline = run.pipeline;
  const auto rounds = [&](std::int64_t fullest) {
    return schedule::count_rounds(pipeline, static_cast<std::size_t>(fullest));
  };
  pipeline.microbatches = rounds(microbatches);
  pipeline.next_microbatches = next_microbatches > 0 ? rounds(next_microbatches) : 0;
  schedule::Schedule lowered = schedule::lower_schedule(
      schedule::schedule_passes(pipeline), {.receive = kBuffersOfALink, .send = kBuffersOfALink});
  StepSchedule step{.actions = {},
                    .microbatches = pipeline.microbatches,
                    .next_microbatches = *pipeline.next_microbatches};
  const schedule::PipelineMap map(pipeline);
  std::vector<std::pair<int, std::span<const schedule::Action>>> backwards;
  std::vector<int> others;  // the backbone, and those that take turns with it
  for (const int lane : run.own()) {
    ActionList& list = lowered.lists[static_cast<std::size_t>(lane)];
    step.in_flight += lowered.in_flight[static_cast<std::size_t>(lane)];
    if (!map.is_colocated(lane) || map.alternate(map.at(lane).module, map.flow().back())) {
      others.push_back(lane);
      continue;
    }
    const auto backward = std::stable_partition(list.begin(), list.end(), is_of_forward);
    append(lane, {list.begin(), backward}, step.actions);
    backwards.emplace_back(lane, std::span(backward, list.end()));
  }
  join_turns(others, lowered.lists, step.actions);
  for (const auto& [lane, list] : backwards) append(lane, list, step.actions);
  return step;
}

}  // namespace tributary::train
