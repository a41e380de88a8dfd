#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "simulate/engine/step_times.h"

namespace tributary::simulate {

/// Runs each lane as far as it gets, with its own clock. A message that arrives, or leaves the
/// pool, wakes the lane that waits for it. Passes do not slow down, and hold_meetings() times
/// reductions and the step later: so the times of a lane follow from the arrivals of its messages,
/// whatever the order in which lanes run.
///
/// `Ways` time messages: `Nanoseconds begin(int message, int channel, Nanoseconds now)` returns the
/// arrival of a message that starts, or kNever when the caller will call arrive() later.
template <class Ways>
class LaneWalk {
 public:
  LaneWalk(const StepProgram& program, const StepLoad& load, const Network& network, Ways& ways,
           StepTimes& times)
      : program_(program),
        load_(load),
        network_(network),
        ways_(ways),
        times_(times),
        lanes_(static_cast<std::size_t>(program.lanes())) {}

  /// Runs lanes from their beginning; the lowest goes first.
  template <class Lanes>
  void start(const Lanes& lanes) {
    for (const int lane : lanes) {
      lanes_[lane] = {.clock = load_.begin_of(lane), .next = program_.first_action(lane)};
      ready_.push_back(lane);
    }
    std::reverse(ready_.begin(), ready_.end());
    advance_all();
  }
  void arrive(int message, Nanoseconds time) {
    note_arrival(message, time);
    advance_all();
  }
  /// Lanes that reached neither their end nor the step.
  [[nodiscard]] std::vector<BlockedAction> find_blocked() const {
    std::vector<BlockedAction> blocked;
    for (int lane = 0; lane < program_.lanes(); ++lane) {
      const LaneState& state = lanes_[lane];
      if (state.next < program_.first_action(lane + 1) &&
          program_.kind(state.next) != StepKind::kOptimize)
        blocked.push_back({.action = state.next, .message = state.waits_for});
    }
    return blocked;
  }

 private:
  struct LaneState {
    Nanoseconds clock = {};
    int next = 0;
    int waits_for = -1;  // message
  };

  void advance_all() {
    while (!ready_.empty()) {
      const int lane = ready_.back();
      ready_.pop_back();
      advance(lane);
    }
  }
  void advance(int lane) {
    LaneState& state = lanes_[lane];
    const int end = program_.first_action(lane + 1);
    for (; state.next < end; ++state.next) {
      const int action = state.next;
      ActionTimes& times = times_.actions[action];
      if (times.reached == kNever) times.reached = state.clock;
      if (!perform(action, state, times)) return;
    }
  }

  /// False when the lane has to wait.
  bool perform(int action, LaneState& state, ActionTimes& times) {
    switch (program_.kind(action)) {
      case StepKind::kPass:
        if (!wait_for_messages(action, state)) return false;
        times.start = state.clock;
        for (const int message : program_.messages_of(action)) take(message, state.clock);
        state.clock += load_.duration[action];
        times.end = state.clock;
        return true;
      case StepKind::kSend:
        if (!wait_for_buffers(action, state)) return false;
        for (const int message : program_.messages_of(action)) give(message, state.clock);
        break;
      case StepKind::kReceive:
        for (const int message : program_.messages_of(action)) post(message, state.clock);
        break;
      case StepKind::kReduce:  // holds no lane
        return true;
      case StepKind::kOptimize:  // nothing comes after it
        return false;
      case StepKind::kHand:
        break;
    }
    times.start = times.end = state.clock;
    return true;
  }

  bool wait_until(Nanoseconds time, int message, LaneState& state) {
    if (time == kNever) {
      state.waits_for = message;
      return false;
    }
    state.clock = std::max(state.clock, time);
    return true;
  }
  bool wait_for_messages(int action, LaneState& state) {
    for (const int message : program_.messages_of(action))
      if (!wait_until(times_.messages[message].arrived, message, state)) return false;
    return true;
  }
  /// A send waits until the message that had its buffer before has arrived, and with a pool until
  /// the one that had its place was taken.
  bool wait_for_buffers(int action, LaneState& state) {
    for (const int message : program_.messages_of(action)) {
      const auto [earlier, in_pool] = buffer_before(program_, network_, message);
      if (earlier < 0) {
        state.clock = std::max(state.clock, load_.vacant_at(message));
        continue;
      }
      if (!wait_until(times_.messages[earlier].freed(in_pool), earlier, state)) return false;
    }
    return true;
  }
  void take(int message, Nanoseconds now) {
    times_.messages[message].taken = now;
    wake(program_.channel_of(message).from, message);
  }

  [[nodiscard]] bool has_pool(int message) const {
    return network_.routes[program_.messages()[message].channel].capacity > 0;
  }
  void give(int message, Nanoseconds now) {
    times_.messages[message].given = now;
    if (has_pool(message)) times_.messages[message].posted = now;
    if (times_.messages[message].posted != kNever) begin(message);
  }
  void post(int message, Nanoseconds now) {
    if (has_pool(message)) return;
    times_.messages[message].posted = now;
    if (times_.messages[message].given != kNever) begin(message);
  }
  void begin(int message) {
    const Nanoseconds arrival = ways_.begin(message, program_.messages()[message].channel,
                                            times_.messages[message].begun());
    if (arrival != kNever) note_arrival(message, arrival);
  }
  void note_arrival(int message, Nanoseconds time) {
    times_.messages[message].arrived = time;
    const Channel& channel = program_.channel_of(message);
    wake(channel.from, message);
    wake(channel.to, message);
  }
  void wake(int lane, int message) {
    if (lanes_[lane].waits_for != message) return;
    lanes_[lane].waits_for = -1;
    ready_.push_back(lane);
  }

  const StepProgram& program_;
  const StepLoad& load_;
  const Network& network_;
  Ways& ways_;
  StepTimes& times_;
  std::vector<LaneState> lanes_;
  std::vector<int> ready_;
};

}  // namespace tributary::simulate
