#pragma once

#include <array>
#include <optional>
#include <vector>

#include "plan/cut_layers/split_layers.h"

namespace tributary::plan {

/// Times of any range of units on any stage, from prefix sums.
class StageTimes {
 public:
  explicit StageTimes(const SplitProblem& problem);

  struct Cost {
    Nanoseconds time;
    config::RecomputePlan recompute;
  };
  /// The cost of units [first, end) on a stage; null when they do not fit at any level. Time and
  /// memory both grow with the range.
  [[nodiscard]] std::optional<Cost> at(std::int64_t stage, std::int64_t first,
                                       std::int64_t end) const;
  /// Sum [ns] of the first `units` units on `stages` stages without recompute.
  [[nodiscard]] std::int64_t without_recompute(std::int64_t stages, std::int64_t units) const;
  /// Bytes of the range with full recompute.
  [[nodiscard]] Bytes min_bytes(std::int64_t stage, std::int64_t first, std::int64_t end) const;

  [[nodiscard]] std::int64_t units() const { return std::ssize(passes_) - 1; }

 private:
  [[nodiscard]] std::int64_t boundary() const {
    return problem_.stages > 1 ? problem_.boundary.count : 0;
  }
  [[nodiscard]] std::int64_t in_flight(std::int64_t stage) const;

  const SplitProblem& problem_;
  std::vector<std::int64_t> passes_;                     // [units + 1] sums up to a unit
  std::vector<std::int64_t> state_;                      // [units + 1]
  std::array<std::vector<std::int64_t>, 3> recompute_;   // [level][units + 1]
  std::array<std::vector<std::int64_t>, 3> activation_;  // [level][units + 1]
};

}  // namespace tributary::plan
