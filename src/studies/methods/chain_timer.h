#pragma once

#include <span>
#include <vector>

#include "core/units.h"

namespace tributary::studies {

/// Seconds of a microbatch on a stage; backward includes recompute.
struct PassSeconds {
  double forward = 0;
  double backward = 0;

  friend PassSeconds operator+(const PassSeconds& a, const PassSeconds& b) {
    return {a.forward + b.forward, a.backward + b.backward};
  }
};

/// Rounds seconds to the whole nanoseconds in which passes are timed.
[[nodiscard]] Nanoseconds to_nanoseconds(double seconds);

/// Seconds of a step of a 1F1B chain.
///
/// shape: times [stages, microbatches]
/// cost:  one pass over the times, without a list of actions
[[nodiscard]] double time_1f1b(int stages, std::span<const PassSeconds> times);

/// Seconds of the same step with an encoder nested into it. Each stage runs its part of a
/// microbatch's encoder forward as many rounds ahead as the backbone's forwards are, and its part
/// of the backward as many rounds later as the gradient comes after its own backward.
///
/// shape: times and encoder [stages, microbatches]
[[nodiscard]] double time_nested_1f1b(int stages, std::span<const PassSeconds> times,
                                      std::span<const PassSeconds> encoder);

/// Seconds in which each stage of a 1F1B chain is idle.
[[nodiscard]] std::vector<double> idle_in_1f1b(int stages, std::span<const PassSeconds> times);

}  // namespace tributary::studies
