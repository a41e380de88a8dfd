#pragma once

#include <algorithm>
#include <vector>

#include "simulate/program/step_load.h"

namespace tributary::simulate {

/// Slots for messages in flight. A channel has one slot for each buffer, and a message reuses the
/// slot of the message before it in its buffer, which has arrived by then. So tables are as long as
/// the number of messages in flight, not the number of messages.
class FlowSlots {
 public:
  FlowSlots(const StepProgram& program, const Network& network) : program_(program) {
    channels_.reserve(network.routes.size());
    for (std::size_t i = 0; i < network.routes.size(); ++i) {
      const int capacity = network.routes[i].capacity;
      const Channel& channel = program.channels()[i];
      const int buffers = capacity > 0 ? capacity : channel.send_buffers;
      channels_.push_back({.first_slot = static_cast<int>(count_),
                           .first_message = channel.first_message,
                           .buffers = std::max(1, std::min(buffers, channel.messages))});
      count_ += static_cast<std::size_t>(channels_.back().buffers);
    }
  }

  [[nodiscard]] std::size_t count() const { return count_; }
  [[nodiscard]] int of(int message) const {
    const OfChannel& channel = channels_[program_.messages()[message].channel];
    return channel.first_slot + (message - channel.first_message) % channel.buffers;
  }
  /// shape: [slots]
  [[nodiscard]] std::vector<const Route*> routes(const Network& network) const {
    std::vector<const Route*> routes;
    routes.reserve(count_);
    for (std::size_t i = 0; i < channels_.size(); ++i)
      routes.insert(routes.end(), static_cast<std::size_t>(channels_[i].buffers),
                    &network.routes[i]);
    return routes;
  }

 private:
  struct OfChannel {
    int first_slot = 0;
    int first_message = 0;
    int buffers = 0;
  };

  const StepProgram& program_;
  std::vector<OfChannel> channels_;
  std::size_t count_ = 0;
};

}  // namespace tributary::simulate
