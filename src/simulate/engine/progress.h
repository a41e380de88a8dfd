#pragma once

#include <algorithm>

#include "simulate/program/step_load.h"

namespace tributary::simulate {

/// Work in progress at some rate: bytes of a flow or nanoseconds of a pass.
struct Progress {
  double left = 0;
  double rate = 0;
  Nanoseconds since;

  /// Sets the rate; returns the end of the work if the rate stays.
  Nanoseconds change_rate(double new_rate, Nanoseconds now) {
    left = std::max(0.0, left - rate * static_cast<double>((now - since).count));
    rate = new_rate;
    since = now;
    return now + round_up(left / rate);
  }
};

}  // namespace tributary::simulate
