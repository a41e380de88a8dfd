#include <algorithm>
#include <bit>

#include "core/error.h"
#include "plan/sharing/stage_list.h"

namespace tributary::plan {
namespace {

/// The stages with two of them merged, in order; empty when the two may not run together.
std::vector<ModuleSet> merge_pair(const std::vector<ModuleSet>& ancestors,
                                  const std::vector<ModuleSet>& stages, std::size_t x,
                                  std::size_t y) {
  std::vector<ModuleSet> merged = stages;
  merged[x] |= merged[y];
  merged.erase(merged.begin() + static_cast<std::ptrdiff_t>(y));
  // A stage that holds a module and one it depends on would wait for itself.
  return order_stages(ancestors, std::move(merged)).value_or(std::vector<ModuleSet>());
}

}  // namespace

StageList merge_greedily(const std::vector<ModuleSet>& ancestors, StageValues& values) {
  StageList list = {.stages = {}, .time = 0};
  for (std::size_t module = 0; module < ancestors.size(); ++module) {
    list.stages.push_back(ModuleSet{1} << module);
    const std::int64_t time = values.value(list.stages.back());
    if (time == StageValues::kNever) return {};
    list.time += time;
  }
  while (true) {
    std::int64_t best = 0;
    std::vector<ModuleSet> merged;
    for (std::size_t x = 0; x < list.stages.size(); ++x) {
      for (std::size_t y = x + 1; y < list.stages.size(); ++y) {
        std::vector<ModuleSet> next = merge_pair(ancestors, list.stages, x, y);
        if (next.empty()) continue;
        const std::int64_t apart = values.value(list.stages[x]) + values.value(list.stages[y]);
        const ModuleSet both = list.stages[x] | list.stages[y];
        if (!values.is_below(both, apart - best)) continue;  // gains no more than the best so far
        best = apart - values.value(both);
        merged = std::move(next);
      }
    }
    if (best == 0) return list;
    list.time -= best;
    list.stages = std::move(merged);
  }
}

Staging to_staging(StageValues& values, const StageList& list) {
  Staging staging;
  for (const ModuleSet stage : list.stages) {
    staging.stages.push_back({stage, {values.value(stage)}, values.place(stage)});
  }
  staging.certificate.value = {list.time};
  staging.certificate.evaluations = values.evaluations();
  return staging;
}

std::int64_t staging_bound(const SharingProblem& problem, const ShareOptions& options) {
  const std::int64_t room = problem.devices * problem.units;
  std::int64_t work = 0;
  std::int64_t longest = 0;
  std::vector<std::int64_t> chain;
  for (std::size_t module = 0; module < problem.modules.size(); ++module) {
    work += options.work(static_cast<int>(module));
    std::int64_t before = 0;
    for (const std::int32_t other : problem.modules[module].after) {
      before = std::max(before, chain[other]);
    }
    chain.push_back(before + options.min_time(static_cast<int>(module)));
    longest = std::max(longest, chain.back());
  }
  return std::max((work + room - 1) / room, longest);
}

std::string explain_unplaced(const SharingProblem& problem, StageValues& values) {
  for (std::size_t module = 0; module < problem.modules.size(); ++module) {
    if (values.value(ModuleSet{1} << module) != StageValues::kNever) continue;
    const std::vector<Bytes>& memory = problem.modules[module].memory;
    const Bytes min = *std::min_element(memory.begin(), memory.end());
    return str("memory: ", problem.modules[module].name, " needs ", min,
               " of a device on its widest block, ", min - *problem.memory, " above the limit of ",
               *problem.memory);
  }
  return {};
}

Staging merge_stages(const SharingProblem& problem, const StagingEffort& effort) {
  check_problem(problem);
  StageValues values(problem, effort.steps);
  const StageList list = merge_greedily(ancestors_of(problem), values);
  if (list.stages.empty()) {
    return {.certificate = {.evaluations = values.evaluations(),
                            .limit = explain_unplaced(problem, values)}};
  }
  Staging staging = to_staging(values, list);
  const std::int64_t bound = staging_bound(problem, values.options());
  staging.certificate.lower_bound = {bound};
  staging.certificate.status = list.time == bound ? Status::kOptimal : Status::kFeasible;
  return staging;
}

}  // namespace tributary::plan
