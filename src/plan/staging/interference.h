#pragma once

#include <cstdint>
#include <span>

#include "core/units.h"

namespace tributary::plan {

/// What modules that share a device cost each other, by their shares of its memory bandwidth.
struct Interference {
  enum class Form {
    kNone,
    /// time * (1 + base + sum * sum(B) + pair * sum of B_i B_j); a module alone is not slowed
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

/// The modules on one device, added one after another.
struct DeviceTraffic {
  std::int64_t modules = 0;
  double sum = 0;
  double squares = 0;
  double product = 1;

  void add(double bandwidth) {
    ++modules;
    sum += bandwidth;
    squares += bandwidth * bandwidth;
    product *= bandwidth;
  }
  [[nodiscard]] double pairs() const { return 0.5 * (sum * sum - squares); }
};

/// The time of a module on a device with this traffic, its own included; rounded up.
[[nodiscard]] Nanoseconds slowed(const Interference& interference, Nanoseconds time,
                                 const DeviceTraffic& traffic);

/// No larger than slowed() after any further modules: the published product may fall.
[[nodiscard]] Nanoseconds least_slowed(const Interference& interference, Nanoseconds time,
                                       const DeviceTraffic& traffic);

}  // namespace tributary::plan
