#include "plan/cut_layers/split_layers.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "core/error.h"
#include "plan/cut_layers/stage_times.h"

namespace tributary::plan {
namespace {

constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kMaxTotal = std::int64_t{1} << 60;  // max sum over all microbatches

void check_problem(const SplitProblem& problem) {
  TRIB_REQUIRE(problem.stages >= 1 && problem.microbatches >= 1 && problem.stages_behind >= 0,
               .what = "plan: pipeline is empty",
               .found = str(problem.stages, " stages, ", problem.microbatches, " microbatches"),
               .expected = "at least 1 of each");
  TRIB_REQUIRE(std::ssize(problem.units) >= problem.stages, .what = "plan: fewer units than stages",
               .found = str(problem.units.size(), " units, ", problem.stages, " stages"),
               .expected = "at least one unit a stage");
  const std::int64_t max =
      kMaxTotal / std::ssize(problem.units) / (problem.microbatches + problem.stages);
  TRIB_REQUIRE(problem.boundary.count >= 0 && problem.boundary.count <= max,
               .what = "plan: value cannot be used", .where = "boundary",
               .found = str(problem.boundary), .expected = str("0 to ", max));
  for (std::size_t index = 0; index < problem.units.size(); ++index) {
    const UnitCosts& unit = problem.units[index];
    for (const std::int64_t value :
         {unit.forward.count, unit.input_gradient.count, unit.weight_gradient.count,
          unit.recompute_selective.count, unit.recompute_full.count, unit.state.count,
          unit.activation.count, unit.activation_selective.count, unit.activation_full.count}) {
      TRIB_REQUIRE(value >= 0 && value <= max, .what = "plan: value cannot be used",
                   .where = str("unit ", index), .found = str(value),
                   .expected = str("0 to ", max));
    }
    TRIB_REQUIRE(unit.activation >= unit.activation_selective &&
                     unit.activation_selective >= unit.activation_full &&
                     unit.recompute_full >= unit.recompute_selective,
                 .what = "plan: recompute that does not pay", .where = str("unit ", index),
                 .expected = "more recompute to take longer and to keep less");
  }
}

class Splitter {
 public:
  explicit Splitter(const SplitProblem& problem)
      : problem_(problem), times_(problem), units_(std::ssize(problem.units)) {}

  LayerSplit run() {
    std::int64_t limit = min_limit();
    if (limit == kNever) return explain();
    const std::int64_t min_sum = times_.without_recompute(problem_.stages, units_);
    for (; limit != kNever; limit = next_limit(limit)) {
      if (best_ != kNever && (problem_.microbatches - 1) * limit + min_sum >= best_) break;
      try_limit(limit);
    }
    return finish();
  }

 private:
  [[nodiscard]] std::int64_t time_of(std::int64_t stage, std::int64_t first,
                                     std::int64_t end) const {
    const auto cost = times_.at(stage, first, end);
    return cost ? cost->time.count : kNever;
  }
  /// The max end of a stage that leaves one unit for each later stage.
  [[nodiscard]] std::int64_t last_end(std::int64_t stage) const {
    return units_ - (problem_.stages - stage - 1);
  }

  /// The min time of the slowest stage; kNever when no split fits the memory.
  [[nodiscard]] std::int64_t min_limit() {
    std::int64_t low = 0;
    std::int64_t high = kNever - 1;
    if (!fits(high)) return kNever;
    while (low < high) {
      const std::int64_t middle = low + (high - low) / 2;
      if (fits(middle)) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    return low;
  }

  /// The min time above the limit that some range takes on some stage; kNever when there is none.
  [[nodiscard]] std::int64_t next_limit(std::int64_t limit) const {
    std::int64_t next = kNever;
    for (std::int64_t stage = 0; stage < problem_.stages; ++stage) {
      std::int64_t end = stage + 1;  // a later first unit never ends earlier
      for (std::int64_t first = stage; first < last_end(stage); ++first) {
        end = std::max(end, first + 1);
        while (end <= last_end(stage) && time_of(stage, first, end) <= limit) ++end;
        if (end > last_end(stage)) break;
        next = std::min(next, time_of(stage, first, end));
      }
    }
    return next;
  }

  /// The max end of a stage whose preceding stages reach up to `first`; null when it cannot have a
  /// unit. If unit `first` is too much for this stage, the stage may start before it: earlier
  /// stages keep more microbatches in flight, so a unit can fit here that did not fit there.
  [[nodiscard]] std::optional<std::int64_t> furthest_end(std::int64_t stage, std::int64_t first,
                                                         std::int64_t limit) const {
    std::int64_t end = first;
    while (end < last_end(stage) && time_of(stage, first, end + 1) <= limit) ++end;
    if (end == first && first == stage) return std::nullopt;
    return end;
  }

  /// Whether the greedy cut, each stage as far as it goes, covers all units.
  [[nodiscard]] bool fits(std::int64_t limit) {
    ++evaluations_;
    std::optional<std::int64_t> first = 0;
    for (std::int64_t stage = 0; first && stage < problem_.stages; ++stage)
      first = furthest_end(stage, *first, limit);
    return first == units_;
  }

  /// Finds the min sum with no stage above the limit.
  void try_limit(std::int64_t limit) {
    ++evaluations_;
    const std::size_t row = static_cast<std::size_t>(units_) + 1;
    std::vector<std::int32_t> cut(static_cast<std::size_t>(problem_.stages) * row);
    std::vector<std::int64_t> sum(row, kNever);  // of the stages so far, by their end
    sum[0] = 0;
    for (std::int64_t stage = 0; stage < problem_.stages; ++stage)
      sum = add_stage(stage, limit, sum, &cut[static_cast<std::size_t>(stage) * row]);
    if (sum.back() == kNever) return;
    std::vector<std::int64_t> cuts(static_cast<std::size_t>(problem_.stages) + 1, units_);
    std::int64_t slowest = 0;
    for (std::int64_t stage = problem_.stages - 1; stage >= 0; --stage) {
      cuts[stage] = cut[stage * row + cuts[stage + 1]];
      slowest = std::max(slowest, time_of(stage, cuts[stage], cuts[stage + 1]));
    }
    const std::int64_t value = sum.back() + (problem_.microbatches - 1) * slowest;
    if (value >= best_) return;
    best_ = value;
    cuts_ = std::move(cuts);
  }

  /// The min sums with one more stage, and where it begins: the earliest of equal ones.
  [[nodiscard]] std::vector<std::int64_t> add_stage(std::int64_t stage, std::int64_t limit,
                                                    const std::vector<std::int64_t>& before,
                                                    std::int32_t* cut) const {
    std::vector<std::int64_t> sum(before.size(), kNever);
    std::int64_t last = last_end(stage) - 1;  // where the stage may begin
    while (last >= stage && before[last] == kNever) --last;
    std::int64_t earliest = stage;
    for (std::int64_t end = stage + 1; end <= last_end(stage); ++end) {
      while (earliest < end && time_of(stage, earliest, end) > limit) ++earliest;
      if (earliest > last) break;
      for (std::int64_t first = earliest; first <= std::min(last, end - 1); ++first) {
        if (before[first] == kNever) continue;
        const std::int64_t found = before[first] + time_of(stage, first, end);
        if (found >= sum[end]) continue;
        sum[end] = found;
        cut[end] = static_cast<std::int32_t>(first);
        if (found == times_.without_recompute(stage + 1, end)) break;  // no later one is better
      }
    }
    return sum;
  }

  [[nodiscard]] LayerSplit finish() {
    LayerSplit split = {.certificate = {.value = {best_},
                                        .lower_bound = {best_},
                                        .status = Status::kOptimal,
                                        .evaluations = evaluations_},
                        .first_unit = std::move(cuts_)};
    for (std::int64_t stage = 0; stage < problem_.stages; ++stage) {
      const auto cost = times_.at(stage, split.first_unit[stage], split.first_unit[stage + 1]);
      split.recompute.push_back(cost.value().recompute);
      split.stage_time.push_back(cost.value().time);
    }
    return split;
  }

  [[nodiscard]] LayerSplit explain() const {
    LayerSplit split;
    split.certificate.evaluations = evaluations_;
    std::int64_t first = 0;
    for (std::int64_t stage = 0; stage < problem_.stages; ++stage) {
      const bool is_last = stage + 1 == problem_.stages;
      const std::optional<std::int64_t> end = furthest_end(stage, first, kNever - 1);
      if (!end || (is_last && *end < units_)) {
        const std::int64_t needed = is_last ? units_ : first + 1;
        const Bytes bytes = times_.min_bytes(stage, first, needed);
        split.certificate.limit =
            str("memory: stage ", stage, " with units ", first, " to ", needed - 1, " needs ",
                bytes, " with full recompute, ", bytes - *problem_.memory, " above the limit of ",
                *problem_.memory, ", although the stages before it take all they can");
        break;
      }
      first = *end;
    }
    return split;
  }

  const SplitProblem& problem_;
  StageTimes times_;
  std::int64_t units_;
  std::int64_t best_ = kNever;
  std::vector<std::int64_t> cuts_;
  std::int64_t evaluations_ = 0;
};

}  // namespace

LayerSplit split_layers(const SplitProblem& problem) {
  check_problem(problem);
  return Splitter(problem).run();
}

Bytes min_memory(const SplitProblem& problem) {
  check_problem(problem);
  const StageTimes times(problem);
  const std::int64_t units = times.units();
  constexpr Bytes kNone{kNever};
  std::vector<Bytes> min(static_cast<std::size_t>(units) + 1, kNone);  // [end] of stages so far
  min[0] = {};
  for (std::int64_t stage = 0; stage < problem.stages; ++stage) {
    std::vector<Bytes> next(min.size(), kNone);
    for (std::int64_t end = stage + 1; end <= units; ++end)
      for (std::int64_t first = stage; first < end; ++first)
        next[end] = std::min(next[end], std::max(min[first], times.min_bytes(stage, first, end)));
    min = std::move(next);
  }
  return min.back();
}

}  // namespace tributary::plan
