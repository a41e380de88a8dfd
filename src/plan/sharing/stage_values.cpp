#include "plan/sharing/stage_values.h"

#include <algorithm>
#include <bit>

namespace tributary::plan {

StageValues::StageValues(const SharingProblem& problem, std::int64_t steps)
    : problem_(problem),
      options_(problem),
      plain_(problem, options_),
      shared_(problem, options_),
      known_(std::size_t{1} << problem.modules.size()),
      steps_left_(steps) {}

bool StageValues::is_plain(ModuleSet modules) const {
  if (problem_.interference.form != Interference::Form::kNone) return false;
  if (!problem_.memory) return true;
  std::int64_t all = 0;  // every module on one device
  for (ModuleSet rest = modules; rest != 0; rest &= rest - 1) {
    std::int64_t max = 0;
    for (const Bytes memory : problem_.modules[std::countr_zero(rest)].memory) {
      max = std::max(max, memory.count);
    }
    all += max;
  }
  return all <= problem_.memory->count;
}

std::int64_t StageValues::lower_bound(ModuleSet modules) {
  Known& known = known_[modules];
  if (known.min < 0) {
    const auto limit = static_cast<std::size_t>(options_.min_limit(modules));
    known.min = limit == options_.limits().size() ? kNever : options_.limits()[limit];
  }
  // Fewer modules never take longer, except under the published product, which may fall.
  if (problem_.interference.form == Interference::Form::kPublished) return known.min;
  for (ModuleSet rest = modules; rest != 0 && !known.is_value; rest &= rest - 1) {
    known.min = std::max(known.min, known_[modules & ~(rest & (~rest + 1))].min);
  }
  return known.min;
}

bool StageValues::is_below(ModuleSet modules, std::int64_t time) {
  if (lower_bound(modules) >= time) return false;
  if (known_[modules].is_value) return true;
  ++evaluations_;
  return is_plain(modules) ? search_plain(modules, time) : search_shared(modules, time);
}

bool StageValues::search_plain(ModuleSet modules, std::int64_t time) {
  Known& known = known_[modules];
  const std::vector<std::int64_t>& limits = options_.limits();
  int low = options_.last_within(known.min - 1) + 1;  // the first limit that may be enough
  int high = options_.last_within(time - 1);
  if (low > high || !plain_.fits(modules, high)) {
    known.min = high + 1 < static_cast<int>(limits.size()) ? limits[high + 1] : kNever;
    return false;
  }
  // The bound is often the answer, so the search looks near it first, then halves.
  for (int step = 1; low < high; step *= 2) {
    const int probe = std::min(low + step - 1, low + (high - low) / 2);
    if (plain_.fits(modules, probe)) {
      high = probe;
    } else {
      low = probe + 1;
    }
  }
  known = {.min = limits[high], .is_value = true};
  return true;
}

bool StageValues::search_shared(ModuleSet modules, std::int64_t time) {
  Known& known = known_[modules];
  const std::int64_t before = shared_.steps();
  const SharedPlacer::Answer answer =
      shared_.solve(modules, {known.min}, {time - 1}, std::max<std::int64_t>(steps_left_, 1));
  steps_left_ -= shared_.steps() - before;
  is_exact_ = is_exact_ && answer.is_proven;
  if (answer.value) {
    known = {.min = answer.value->count, .is_value = true};
    return true;
  }
  known.min = time;
  return false;
}

std::int64_t StageValues::value(ModuleSet modules) {
  return is_below(modules, kNever) ? known_[modules].min : kNever;
}

std::vector<PlacedModule> StageValues::place(ModuleSet modules) {
  const std::int64_t time = value(modules);
  if (time == kNever) return {};
  std::vector<PlacedModule> placed;
  if (is_plain(modules)) {
    if (!plain_.fits(modules, options_.last_within(time))) return {};
    placed = plain_.placed();
    for (PlacedModule& place : placed) {
      const auto width = std::countr_zero(static_cast<std::uint64_t>(place.devices));
      place.time = problem_.time(place.module, width, place.share);
    }
  } else {
    (void)shared_.solve(modules, {time}, {time}, std::int64_t{1} << 40);
    placed = shared_.placed();
  }
  std::sort(placed.begin(), placed.end(),
            [](const PlacedModule& a, const PlacedModule& b) { return a.module < b.module; });
  return placed;
}

}  // namespace tributary::plan
