#include "plan/cut_layers/stage_times.h"

#include <algorithm>

namespace tributary::plan {

StageTimes::StageTimes(const SplitProblem& problem) : problem_(problem) {
  const auto sums_of = [&](auto value_of) {
    std::vector<std::int64_t> sums = {0};
    for (const UnitCosts& unit : problem.units) sums.push_back(sums.back() + value_of(unit).count);
    return sums;
  };
  passes_ = sums_of([](const UnitCosts& unit) { return unit.passes(); });
  state_ = sums_of([](const UnitCosts& unit) { return unit.state; });
  recompute_ = {sums_of([](const UnitCosts&) { return Nanoseconds{}; }),
                sums_of([](const UnitCosts& unit) { return unit.recompute_selective; }),
                sums_of([](const UnitCosts& unit) { return unit.recompute_full; })};
  activation_ = {sums_of([](const UnitCosts& unit) { return unit.activation; }),
                 sums_of([](const UnitCosts& unit) { return unit.activation_selective; }),
                 sums_of([](const UnitCosts& unit) { return unit.activation_full; })};
}

std::int64_t StageTimes::in_flight(std::int64_t stage) const {
  return std::min(problem_.microbatches, problem_.stages - stage + problem_.stages_behind);
}

std::optional<StageTimes::Cost> StageTimes::at(std::int64_t stage, std::int64_t first,
                                               std::int64_t end) const {
  for (std::size_t level = 0; level < 3; ++level) {
    const std::int64_t bytes =
        state_[end] - state_[first] +
        in_flight(stage) * (activation_[level][end] - activation_[level][first]);
    if (problem_.memory && bytes > problem_.memory->count) continue;
    return Cost{.time = {passes_[end] - passes_[first] + recompute_[level][end] -
                         recompute_[level][first] + boundary()},
                .recompute = static_cast<config::RecomputePlan>(level)};
  }
  return std::nullopt;
}

std::int64_t StageTimes::without_recompute(std::int64_t stages, std::int64_t units) const {
  return passes_[units] + stages * boundary();
}

Bytes StageTimes::min_bytes(std::int64_t stage, std::int64_t first, std::int64_t end) const {
  return {state_[end] - state_[first] +
          in_flight(stage) * (activation_[2][end] - activation_[2][first])};
}

}  // namespace tributary::plan
