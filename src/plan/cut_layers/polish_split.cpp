#include <utility>

#include "core/error.h"
#include "plan/cut_layers/split_layers.h"
#include "plan/cut_layers/stage_times.h"
#include "schedule/pipeline/time_schedule.h"

namespace tributary::plan {
namespace {

/// The 1F1B schedule of a chain, made once and timed with the costs of many splits.
class Chain {
 public:
  explicit Chain(const SplitProblem& problem)
      : problem_(problem),
        schedule_(schedule::schedule_passes(
            {.modules = {{.name = "chain", .stages = static_cast<int>(problem.stages)}},
             .edges = {},
             .microbatches = static_cast<int>(problem.microbatches)})),
        map_(schedule_.pipeline),
        graph_(schedule_, map_, {}) {}

  [[nodiscard]] Nanoseconds time(const LayerSplit& split) const {
    std::vector<schedule::PassTimes> times;  // [stages] backward includes recompute
    for (std::int64_t stage = 0; stage < problem_.stages; ++stage) {
      schedule::PassTimes sum = {{0}, {0}, {0}};
      for (std::int64_t unit = split.first_unit[stage]; unit < split.first_unit[stage + 1];
           ++unit) {
        sum.forward += problem_.units[unit].forward;
      }
      sum.backward_input = split.stage_time[stage] - sum.forward;
      times.push_back(sum);
    }
    const auto action = [&](int lane, const schedule::Action& pass) {
      return pass.op == schedule::Op::kForward ? times[lane].forward : times[lane].backward_input;
    };
    return makespan_of(graph_, {.action = action, .hop = {}});
  }

 private:
  const SplitProblem& problem_;
  schedule::Schedule schedule_;
  schedule::PipelineMap map_;
  schedule::DependencyGraph graph_;
};

/// Applies other cuts to the split; returns false when a stage is empty or does not fit.
bool recut(const SplitProblem& problem, const StageTimes& times, LayerSplit& split) {
  for (std::int64_t stage = 0; stage < problem.stages; ++stage) {
    if (split.first_unit[stage] >= split.first_unit[stage + 1]) return false;
    const auto cost = times.at(stage, split.first_unit[stage], split.first_unit[stage + 1]);
    if (!cost) return false;
    split.recompute[stage] = cost->recompute;
    split.stage_time[stage] = cost->time;
  }
  return true;
}

void check_split(const SplitProblem& problem, const LayerSplit& split) {
  TRIB_REQUIRE(std::ssize(split.stage_time) == problem.stages &&
                   std::ssize(split.first_unit) == problem.stages + 1,
               .what = "plan: split is of another pipeline",
               .found = str(split.stage_time.size(), " stages"), .expected = str(problem.stages));
}

}  // namespace

Nanoseconds simulate_split(const SplitProblem& problem, const LayerSplit& split) {
  check_split(problem, split);
  return Chain(problem).time(split);
}

LayerSplit polish_split(const SplitProblem& problem, const LayerSplit& split) {
  check_split(problem, split);
  const Chain chain(problem);
  const StageTimes times(problem);
  LayerSplit best = split;
  best.certificate = {.value = chain.time(best), .status = Status::kFeasible, .evaluations = 1};
  for (bool is_better = true; is_better;) {
    is_better = false;
    for (std::int64_t cut = 1; cut < problem.stages; ++cut) {
      for (const std::int64_t move : {-1, +1}) {
        LayerSplit next = best;
        next.first_unit[cut] += move;
        if (!recut(problem, times, next)) continue;
        const Nanoseconds time = chain.time(next);
        ++best.certificate.evaluations;
        if (time >= best.certificate.value) continue;
        next.certificate = best.certificate;
        next.certificate.value = time;
        best = std::move(next);
        is_better = true;
      }
    }
  }
  // No split has a slowest stage below an even share of all passes.
  std::int64_t work = 0;
  for (const UnitCosts& unit : problem.units) work += unit.passes().count;
  best.certificate.lower_bound = {(work * problem.microbatches + problem.stages - 1) /
                                  problem.stages};
  return best;
}

}  // namespace tributary::plan
