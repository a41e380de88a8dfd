#include "plan/baseline/chain_timer.h"

#include <algorithm>
#include <cmath>

namespace tributary::plan {
namespace {

std::int64_t count(double seconds) { return to_nanoseconds(seconds).count; }

/// Nanoseconds of a step.
///
/// A stage is one forward further ahead than the one behind it, so that round k is a forward of
/// microbatch k + stages - 1 - stage on each stage, which waits for what the stage before it did a
/// round earlier, and then the backward of microbatch k from the last stage to the first.
std::int64_t makespan_of(int stages, std::span<const StageTimes> times) {
  const auto microbatches = std::ssize(times) / stages;
  std::vector<std::int64_t> free(static_cast<std::size_t>(stages));     // when a stage has ended
  std::vector<std::int64_t> arrived(static_cast<std::size_t>(stages));  // its latest forward
  for (std::ptrdiff_t round = 1 - stages; round < microbatches; ++round) {
    // From the last stage, so that each finds its neighbour as the round before left it.
    for (int stage = stages - 1; stage >= 0; --stage) {
      const std::ptrdiff_t forward = round + stages - 1 - stage;
      if (forward < 0 || forward >= microbatches) continue;
      const std::int64_t ready = stage > 0 ? arrived[stage - 1] : 0;
      free[stage] = arrived[stage] =
          std::max(free[stage], ready) + count(times[stage * microbatches + forward].forward);
    }
    if (round < 0) continue;
    std::int64_t ready = 0;
    for (int stage = stages - 1; stage >= 0; --stage)
      ready = free[stage] =
          std::max(free[stage], ready) + count(times[stage * microbatches + round].backward);
  }
  return *std::max_element(free.begin(), free.end());
}

}  // namespace

Nanoseconds to_nanoseconds(double seconds) { return {std::llround(1e9 * seconds)}; }

double time_1f1b(int stages, std::span<const StageTimes> times) {
  return 1e-9 * static_cast<double>(makespan_of(stages, times));
}

std::vector<double> idle_in_1f1b(int stages, std::span<const StageTimes> times) {
  const std::int64_t makespan = makespan_of(stages, times);
  const auto microbatches = std::ssize(times) / stages;
  std::vector<double> idle;
  for (int stage = 0; stage < stages; ++stage) {
    std::int64_t busy = 0;
    for (const StageTimes& pass : times.subspan(stage * microbatches, microbatches))
      busy += count(pass.forward) + count(pass.backward);
    idle.push_back(1e-9 * static_cast<double>(makespan - busy));
  }
  return idle;
}

}  // namespace tributary::plan
