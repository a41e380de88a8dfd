#include "studies/methods/chain_timer.h"

#include <algorithm>
#include <cmath>

namespace tributary::studies {
namespace {

std::int64_t count(double seconds) { return to_nanoseconds(seconds).count; }

/// A step round by round.
///
/// A stage is one forward further ahead than the next stage. So round k runs, on each stage, the
/// forward of microbatch k + stages - 1 - stage, which needs the previous stage's forward of one
/// round earlier; then the backward of microbatch k, from the last stage to the first.
class Rounds {
 public:
  Rounds(int stages, std::span<const PassSeconds> times)
      : stages_(stages),
        microbatches_(std::ssize(times) / stages),
        times_(times),
        free_(static_cast<std::size_t>(stages)),
        arrived_(static_cast<std::size_t>(stages)) {}

  [[nodiscard]] std::int64_t makespan() {
    for (std::ptrdiff_t round = 1 - stages_; round < microbatches_; ++round) {
      run_forwards(round, 0);
      if (round >= 0) (void)run_backwards(round);
    }
    return last();
  }

  /// The makespan with an encoder that is divided among all stages.
  [[nodiscard]] std::int64_t makespan_with(std::span<const PassSeconds> encoder) {
    std::vector<std::int64_t> gradient(static_cast<std::size_t>(microbatches_));
    for (std::ptrdiff_t round = 1 - stages_; round < microbatches_ + stages_ - 1; ++round) {
      std::int64_t features = 0;
      if (const std::ptrdiff_t ahead = round + stages_ - 1; ahead < microbatches_) {
        for (int stage = 0; stage < stages_; ++stage) {
          free_[stage] += count(encoder[stage * microbatches_ + ahead].forward);
          features = std::max(features, free_[stage]);
        }
      }
      run_forwards(round, features);
      if (round >= 0 && round < microbatches_) gradient[round] = run_backwards(round);
      for (int stage = 0; stage < stages_; ++stage) {
        const std::ptrdiff_t behind = round - stage;
        if (behind < 0 || behind >= microbatches_) continue;
        free_[stage] = std::max(free_[stage], gradient[behind]) +
                       count(encoder[stage * microbatches_ + behind].backward);
      }
    }
    return last();
  }

 private:
  /// features: when the features for the first stage's microbatch arrive
  void run_forwards(std::ptrdiff_t round, std::int64_t features) {
    // Goes backwards from the last stage, so that each finds its neighbour's previous round.
    for (int stage = stages_ - 1; stage >= 0; --stage) {
      const std::ptrdiff_t forward = round + stages_ - 1 - stage;
      if (forward < 0 || forward >= microbatches_) continue;
      const std::int64_t ready = stage > 0 ? arrived_[stage - 1] : features;
      free_[stage] = arrived_[stage] =
          std::max(free_[stage], ready) + count(times_[stage * microbatches_ + forward].forward);
    }
  }
  /// Returns when the gradient of the microbatch has left the first stage.
  [[nodiscard]] std::int64_t run_backwards(std::ptrdiff_t microbatch) {
    std::int64_t ready = 0;
    for (int stage = stages_ - 1; stage >= 0; --stage)
      ready = free_[stage] = std::max(free_[stage], ready) +
                             count(times_[stage * microbatches_ + microbatch].backward);
    return ready;
  }
  [[nodiscard]] std::int64_t last() const { return *std::max_element(free_.begin(), free_.end()); }

  int stages_;
  std::ptrdiff_t microbatches_;
  std::span<const PassSeconds> times_;
  std::vector<std::int64_t> free_;     // when a stage is free
  std::vector<std::int64_t> arrived_;  // when its latest forward has arrived
};

}  // namespace

Nanoseconds to_nanoseconds(double seconds) { return {std::llround(1e9 * seconds)}; }

double time_1f1b(int stages, std::span<const PassSeconds> times) {
  return 1e-9 * static_cast<double>(Rounds(stages, times).makespan());
}

double time_nested_1f1b(int stages, std::span<const PassSeconds> times,
                        std::span<const PassSeconds> encoder) {
  return 1e-9 * static_cast<double>(Rounds(stages, times).makespan_with(encoder));
}

std::vector<double> idle_in_1f1b(int stages, std::span<const PassSeconds> times) {
  const std::int64_t makespan = Rounds(stages, times).makespan();
  const auto microbatches = std::ssize(times) / stages;
  std::vector<double> idle;
  for (int stage = 0; stage < stages; ++stage) {
    std::int64_t busy = 0;
    for (const PassSeconds& pass : times.subspan(stage * microbatches, microbatches))
      busy += count(pass.forward) + count(pass.backward);
    idle.push_back(1e-9 * static_cast<double>(makespan - busy));
  }
  return idle;
}

}  // namespace tributary::studies
