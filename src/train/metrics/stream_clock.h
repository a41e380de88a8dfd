#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include <c10/core/Device.h>
#include <c10/core/Event.h>

namespace tributary::train {

/// Marks moments of what a rank computes: by the host on a CPU, by the current stream on a device.
/// There the host's clock would only tell when work was dispatched, since the device runs behind.
class StreamClock {
 public:
  explicit StreamClock(c10::Device device) : device_(device) {}

  [[nodiscard]] bool runs_behind() const { return !device_.is_cpu(); }
  /// Marks this moment. Returns its number, from 0.
  /// stream: an event on the current one; the host does not wait
  std::size_t mark();
  /// When each mark was, in seconds of now_seconds().
  ///
  /// Events only tell the time between them. The stream's clock is set as early as possible so that
  /// no mark comes before the host made it: that is exact where the stream was idle at a mark.
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
