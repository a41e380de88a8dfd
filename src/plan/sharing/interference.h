#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "core/units.h"

namespace tributary::plan {

/// How much modules that share a device slow each other, by their shares of its memory bandwidth.
struct Interference {
  enum class Form {
    kNone,
    /// time * (1 + base + sum * sum(B) + pair * B_i * (sum of the others' B)): of the pairs those
    /// that the module i is part of; a module alone is not slowed
    kPairwise,
    /// time + base + sum * sum(B) + pair * product of all B, in ns, also for a module alone
    kPublished,
  };
  Form form = Form::kNone;
  double base = 0;
  double sum = 0;
  double pair = 0;

  friend bool operator==(const Interference&, const Interference&) = default;
};

/// The bandwidth of the modules on one device, added one after another.
struct DeviceTraffic {
  std::int64_t modules = 0;
  double sum = 0;
  double product = 1;

  void add(double bandwidth) {
    ++modules;
    sum += bandwidth;
    product *= bandwidth;
  }
  /// For one of the modules: its own bandwidth times that of the others.
  [[nodiscard]] double met_by(double own) const { return own * std::max(0.0, sum - own); }
};

/// The time, rounded up, of a module with bandwidth `own` on a device with this traffic, which
/// includes its own.
[[nodiscard]] Nanoseconds slowed(const Interference& interference, Nanoseconds time, double own,
                                 const DeviceTraffic& traffic);

/// Lower bound on slowed() after any further modules: the published product may fall.
[[nodiscard]] Nanoseconds min_slowed(const Interference& interference, Nanoseconds time, double own,
                                     const DeviceTraffic& traffic);

}  // namespace tributary::plan
