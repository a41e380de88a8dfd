#pragma once

#include <map>
#include <set>
#include <tuple>

#include "schedule/pipeline/pipeline.h"

namespace tributary::schedule {

/// Runs the passes of one module's stages one after the other, any that can, and says whether all
/// ran, each once, with weight gradients of a chunk in data order.
inline bool runs_to_the_end(const Schedule& schedule) {
  const PipelineModule& module = schedule.pipeline.modules[0];
  const bool folded = module.order >= config::PipelineOrder::kZbV;
  const int last = module.stages * module.chunks - 1;
  const auto place = [&](int stage, int chunk) {
    return folded && chunk == 1 ? last - stage : chunk * module.stages + stage;
  };
  std::set<std::tuple<char, int, int>> done;  // F, B or W; virtual stage; microbatch
  std::map<int, int> next_weight;             // of a virtual stage
  const auto try_pass = [&](int stage, const Action& action) {
    const int at = place(stage, action.chunk);
    const int m = action.microbatch;
    if (action.op == Op::kForward) {
      if (at > 0 && !done.contains({'F', at - 1, m})) return false;
      return done.insert({'F', at, m}).second;
    }
    if (action.op != Op::kBackwardWeight) {
      if (!done.contains({'F', at, m})) return false;
      if (at < last && !done.contains({'B', at + 1, m})) return false;
      if (!done.insert({'B', at, m}).second) return false;
      if (action.op == Op::kBackwardInput) return true;
    }
    if (!done.contains({'B', at, m}) || next_weight[at] != m) return false;
    ++next_weight[at];
    return true;
  };
  std::vector<std::size_t> next(schedule.lists.size(), 0);
  for (bool moved = true; moved;) {
    moved = false;
    for (int stage = 0; stage < module.stages; ++stage) {
      const ActionList& list = schedule.lists[stage];
      while (next[stage] < list.size() && try_pass(stage, list[next[stage]])) {
        ++next[stage];
        moved = true;
      }
    }
  }
  for (int stage = 0; stage < module.stages; ++stage)
    if (next[stage] < schedule.lists[stage].size()) return false;
  return true;
}

}  // namespace tributary::schedule
