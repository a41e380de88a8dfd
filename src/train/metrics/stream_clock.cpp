#include "train/metrics/stream_clock.h"

#include <algorithm>

#include <c10/core/impl/VirtualGuardImpl.h>

#include "core/stopwatch.h"

namespace tributary::train {

std::size_t StreamClock::mark() {
  Mark& mark = marks_.emplace_back(Mark{.host = now_seconds()});
  if (runs_behind()) {
    mark.event.emplace(device_.type(), c10::EventFlag::BACKEND_DEFAULT);  // the flag that has times
    mark.event->record(c10::impl::VirtualGuardImpl(device_.type()).getStream(device_));
  }
  return marks_.size() - 1;
}

std::vector<double> StreamClock::times() const {
  std::vector<double> times;
  if (marks_.empty()) return times;
  if (runs_behind()) marks_.back().event->synchronize();
  double begin = 0;
  for (const Mark& mark : marks_) {
    constexpr double kSecondsOfMillisecond = 1e-3;
    const double since =
        runs_behind() ? kSecondsOfMillisecond * marks_.front().event->elapsedTime(*mark.event)
                      : mark.host - marks_.front().host;
    begin = std::max(begin, mark.host - since);
    times.push_back(since);
  }
  for (double& time : times) time += begin;
  return times;
}

}  // namespace tributary::train
