#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "core/random.h"

namespace tributary::schedule {

/// Items that moved recently and must stay, so that a search that went uphill does not go straight
/// back. A move to a value never seen before is always allowed.
///
/// source: Glover 1989, "Tabu search, part I"; the length varies so that no cycle repeats
class Tabu {
 public:
  explicit Tabu(std::int32_t items) : until_(static_cast<std::size_t>(items)) {}

  void next_step() { ++step_; }
  void set_best_value(std::int64_t value) { best_value_ = value; }

  [[nodiscard]] bool allows(std::int32_t item, std::int64_t value) const {
    return until_[item] <= step_ || value < best_value_;
  }
  void hold(std::int32_t item) {
    until_[item] =
        step_ + kShortest + static_cast<std::int64_t>(mix_bits(step_) % std::uint64_t{kVariation});
  }
  /// Lets all items move again.
  void release() { step_ += kShortest + kVariation; }

 private:
  static constexpr std::int64_t kShortest = 8;
  static constexpr std::int64_t kVariation = 16;

  std::vector<std::int64_t> until_;  // [items] the step from which it may move again
  std::int64_t step_ = 0;
  std::int64_t best_value_ = std::numeric_limits<std::int64_t>::max();
};

}  // namespace tributary::schedule
