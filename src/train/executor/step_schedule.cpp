#include "train/executor/step_schedule.h"

#include <algorithm>
#include <array>
#include <iterator>

#include "schedule/pipeline/count_rounds.h"
#include "schedule/pipeline/lower_schedule.h"

namespace tributary::train {
namespace {

using schedule::ActionList;

bool is_of_forward(const schedule::Action& action) {
  using schedule::Op;
  return action.op == Op::kForward || action.op == Op::kSendFeatures;
}

void append(int lane, ActionList::const_iterator first, ActionList::const_iterator end,
            std::vector<LaneAction>& actions) {
  std::transform(first, end, std::back_inserter(actions), [lane](const schedule::Action& action) {
    return LaneAction{.lane = lane, .action = action};
  });
}

/// Joins the lists of two lanes that take turns on a rank; the first one begins.
void join_turns(const std::array<int, 2>& lanes, const std::array<const ActionList*, 2>& lists,
                std::vector<LaneAction>& actions) {
  std::array<std::size_t, 2> next{};
  for (std::size_t here = 0; next[here] < lists[here]->size();) {
    const schedule::Action& action = (*lists[here])[next[here]++];
    if (!schedule::is_turn(action.op)) actions.push_back({.lane = lanes[here], .action = action});
    const bool gives = action.op == schedule::Op::kSendTurn && action.peer == lanes[1 - here];
    const bool ends = next[here] == lists[here]->size();
    if (gives || ends) here = 1 - here;
  }
}

}  // namespace

StepSchedule schedule_step(const RunLanes& run, std::int64_t microbatches) {
  schedule::Pipeline pipeline = run.pipeline;
  pipeline.microbatches = schedule::count_rounds(pipeline, static_cast<std::size_t>(microbatches));
  schedule::Schedule lowered = schedule::lower_schedule(
      schedule::schedule_passes(pipeline), {.receive = kBuffersOfALink, .send = kBuffersOfALink});
  StepSchedule step{.actions = {}, .microbatches = pipeline.microbatches};
  const std::vector<int> lanes = run.own();
  for (const int lane : lanes) step.in_flight += lowered.in_flight[static_cast<std::size_t>(lane)];
  ActionList& first = lowered.lists[static_cast<std::size_t>(lanes.front())];
  if (lanes.size() == 1) {
    append(lanes.front(), first.begin(), first.end(), step.actions);
    return step;
  }
  if (schedule::PipelineMap(pipeline).takes_turns()) {
    join_turns({lanes.front(), lanes.back()},
               {&first, &lowered.lists[static_cast<std::size_t>(lanes.back())]}, step.actions);
    return step;
  }
  const auto backward = std::stable_partition(first.begin(), first.end(), is_of_forward);
  const ActionList& backbone = lowered.lists[static_cast<std::size_t>(lanes.back())];
  append(lanes.front(), first.begin(), backward, step.actions);
  append(lanes.back(), backbone.begin(), backbone.end(), step.actions);
  append(lanes.front(), backward, first.end(), step.actions);
  return step;
}

}  // namespace tributary::train
