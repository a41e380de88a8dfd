#pragma once

#include <span>
#include <vector>

#include "plan/sharing/interference.h"

namespace tributary::plan {

/// One module measured beside others on a device.
struct CoLocation {
  Nanoseconds alone = {};  // its time without the others, with the same share
  Nanoseconds together = {};
  std::vector<double> bandwidth = {};  // of all modules on the device, itself first, 0 to 1
};

struct InterferenceFit {
  Interference interference;
  double error = 0;           // mean |predicted / measured - 1| on the points held out
  double error_in_fit = 0;    // the same on the points that were fitted
  std::int64_t held_out = 0;  // number of those points: every third one
};

/// Fits the three factors of one form, each at least 0, by least squares.
///
/// There are only three factors, so all sets of non-zero ones are tried and the fit is exact.
///
/// errors: Fault::kInput naming the point: a time or bandwidth out of range, fewer than 2 modules;
///         fewer than 6 points; a form without factors
/// source: Mosaic, equations 7 and 8; the relative form is ours
[[nodiscard]] InterferenceFit fit_interference(std::span<const CoLocation> points,
                                               Interference::Form form);

/// Fits both forms; the one that predicts the held-out points better, on a tie the relative one.
[[nodiscard]] InterferenceFit fit_interference(std::span<const CoLocation> points);

}  // namespace tributary::plan
