#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include <c10/core/Device.h>
#include <c10/core/Event.h>

namespace tributary::train {

/// Moments of what a rank computes: of the host on a CPU, of the current stream on a device that
/// runs behind the host, where the host's own clock would tell when work was handed out.
class StreamClock {
 public:
  explicit StreamClock(c10::Device device) : device_(device) {}

  [[nodiscard]] bool runs_behind() const { return !device_.is_cpu(); }
  /// Marks this moment. Returns its number, from 0.
  /// stream: an event on the current one; the host does not wait
  std::size_t mark();
  /// When each mark was, in seconds of now_seconds().
  ///
  /// Events tell the time between them alone. No mark is before the host made it; the stream's time
  /// is taken as the earliest that keeps to this: right to the event where it was idle at a mark.
  /// stream: the host waits until the current one has passed the last mark
  [[nodiscard]] std::vector<double> times() const;

 private:
  struct Mark {
    double host = 0;
    std::optional<c10::Event> event = {};
  };
  c10::Device device_;
  std::vector<Mark> marks_;
};

}  // namespace tributary::train
