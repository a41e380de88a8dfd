#include <algorithm>

#include "plan/simulate/engine/meetings.h"
#include "plan/simulate/engine/step_times.h"

namespace tributary::plan {
namespace {

/// Follows each lane as far as it comes; a message that arrives wakes the lane that waits for it.
class LongestPath {
 public:
  LongestPath(const StepProgram& program, const StepLoad& load, const Network& network)
      : program_(program),
        load_(load),
        network_(network),
        lanes_(static_cast<std::size_t>(program.lanes())),
        rate_alone_(rates_alone(network)) {
    times_.actions.resize(static_cast<std::size_t>(program.actions()));
    times_.messages.resize(program.messages().size());
    if (load.bytes.empty()) find_usual_travel();
  }

  StepTimes run() {
    for (int lane = 0; lane < program_.lanes(); ++lane) {
      lanes_[lane].next = program_.first_action(lane);
      lanes_[lane].clock = load_.begin_of(lane);
      ready_.push_back(lane);
    }
    std::reverse(ready_.begin(), ready_.end());
    while (!ready_.empty()) {
      const int lane = ready_.back();
      ready_.pop_back();
      advance(lane);
    }
    find_blocked();
    hold_meetings(program_, load_, times_);
    return std::move(times_);
  }

 private:
  struct LaneState {
    Nanoseconds clock;
    int next = 0;
    int waits_for = -1;  // message
  };

  void find_usual_travel() {
    for (std::size_t i = 0; i < network_.routes.size(); ++i) {
      const Channel& channel = program_.channels()[i];
      usual_travel_.push_back(channel.messages == 0
                                  ? Nanoseconds{}
                                  : travel_time(network_.routes[i].latency, rate_alone_[i],
                                                program_.bytes_of(channel.first_message)));
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
    wake(program_.channels()[program_.messages()[message].channel].from, message);
  }

  [[nodiscard]] bool has_pool(int message) const {
    return network_.routes[program_.messages()[message].channel].capacity > 0;
  }
  void give(int message, Nanoseconds now) {
    times_.messages[message].given = now;
    if (has_pool(message)) times_.messages[message].posted = now;
    if (times_.messages[message].posted != kNever) arrive(message);
  }
  void post(int message, Nanoseconds now) {
    if (has_pool(message)) return;
    times_.messages[message].posted = now;
    if (times_.messages[message].given != kNever) arrive(message);
  }
  void arrive(int message) {
    MessageTimes& times = times_.messages[message];
    const int index = program_.messages()[message].channel;
    times.arrived = times.begun() + (load_.bytes.empty()
                                         ? usual_travel_[index]
                                         : travel_time(network_.routes[index].latency,
                                                       rate_alone_[index], load_.bytes[message]));
    const Channel& channel = program_.channels()[index];
    wake(channel.from, message);
    wake(channel.to, message);
  }
  void wake(int lane, int message) {
    if (lanes_[lane].waits_for != message) return;
    lanes_[lane].waits_for = -1;
    ready_.push_back(lane);
  }

  /// Lanes that got neither to their end nor to the step.
  void find_blocked() {
    for (int lane = 0; lane < program_.lanes(); ++lane) {
      const LaneState& state = lanes_[lane];
      if (state.next < program_.first_action(lane + 1) &&
          program_.kind(state.next) != StepKind::kOptimize)
        times_.blocked.push_back({.action = state.next, .message = state.waits_for});
    }
  }

  const StepProgram& program_;
  const StepLoad& load_;
  const Network& network_;
  std::vector<LaneState> lanes_;
  std::vector<double> rate_alone_;         // [channels]
  std::vector<Nanoseconds> usual_travel_;  // [channels]
  std::vector<int> ready_;
  StepTimes times_;
};

}  // namespace

StepTimes run_longest_path(const StepProgram& program, const StepLoad& load,
                           const Network& network) {
  return LongestPath(program, load, network).run();
}

}  // namespace tributary::plan
