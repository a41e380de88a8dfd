#include "plan/sharing/interference.h"

#include <algorithm>
#include <cmath>

namespace tributary::plan {
namespace {

Nanoseconds round_up(double time) { return {static_cast<std::int64_t>(std::ceil(time))}; }

}  // namespace

Nanoseconds slowed(const Interference& interference, Nanoseconds time, double own,
                   const DeviceTraffic& traffic) {
  const auto alone = static_cast<double>(time.count);
  switch (interference.form) {
    case Interference::Form::kNone:
      return time;
    case Interference::Form::kPairwise:
      if (traffic.modules < 2) return time;
      return time +
             round_up(alone * std::max(0.0, interference.base + interference.sum * traffic.sum +
                                                interference.pair * traffic.met_by(own)));
    case Interference::Form::kPublished:
      return time + round_up(interference.base + interference.sum * traffic.sum +
                             interference.pair * traffic.product);
  }
  return time;
}

Nanoseconds min_slowed(const Interference& interference, Nanoseconds time, double own,
                       const DeviceTraffic& traffic) {
  if (interference.form != Interference::Form::kPublished) {
    return slowed(interference, time, own, traffic);
  }
  return time + round_up(interference.base + interference.sum * traffic.sum);
}

}  // namespace tributary::plan
