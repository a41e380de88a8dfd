#include <algorithm>

#include "core/error.h"
#include "plan/simulate/step_times.h"

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
        meetings_(program.reductions().size()) {
    times_.actions.resize(static_cast<std::size_t>(program.actions()));
    times_.messages.resize(program.messages().size());
    if (load.bytes.empty()) find_usual_travel();
  }

  StepTimes run() {
    for (int lane = 0; lane < program_.lanes(); ++lane) {
      lanes_[lane].next = program_.first_action(lane);
      ready_.push_back(lane);
    }
    std::reverse(ready_.begin(), ready_.end());
    while (!ready_.empty()) {
      const int lane = ready_.back();
      ready_.pop_back();
      advance(lane);
    }
    find_blocked();
    return std::move(times_);
  }

 private:
  struct LaneState {
    Nanoseconds clock;
    Nanoseconds reduced;  // end of its last reduction
    int next = 0;
    int waits_for = -1;  // message
    bool meets = false;
  };
  struct Meeting {
    Nanoseconds ready;
    std::size_t arrived = 0;
  };

  void find_usual_travel() {
    for (std::size_t i = 0; i < network_.routes.size(); ++i) {
      const Channel& channel = program_.channels()[i];
      usual_travel_.push_back(
          channel.messages == 0
              ? Nanoseconds{}
              : travel_time(network_.routes[i], program_.bytes_of(channel.first_message)));
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
      case StepKind::kReduce:
        join_reduction(action, state);
        return true;
      case StepKind::kOptimize:
        if (state.meets) return false;
        state.meets = true;
        join_step(state);
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
      if (earlier < 0) continue;
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
    times.arrived = times.begun() + (load_.bytes.empty() ? usual_travel_[index]
                                                         : travel_time(network_.routes[index],
                                                                       load_.bytes[message]));
    const Channel& channel = program_.channels()[index];
    wake(channel.from, message);
    wake(channel.to, message);
  }
  void wake(int lane, int message) {
    if (lanes_[lane].waits_for != message) return;
    lanes_[lane].waits_for = -1;
    ready_.push_back(lane);
  }

  void join_reduction(int action, const LaneState& state) {
    const int index = program_.reduction_of(action);
    const StepMeeting& meeting = program_.reductions()[index];
    Meeting& met = meetings_[index];
    met.ready = std::max(met.ready, state.clock);
    if (++met.arrived < meeting.members.size()) return;
    // The members' collective stream is busy until the meeting before it has ended.
    Nanoseconds start = met.ready;
    if (meeting.before >= 0)
      start = std::max(start,
                       times_.actions[program_.reductions()[meeting.before].members.front()].end);
    Nanoseconds longest;
    for (const int member : meeting.members) longest = std::max(longest, load_.duration[member]);
    for (const int member : meeting.members) {
      times_.actions[member].start = start;
      times_.actions[member].end = start + longest;
      Nanoseconds& reduced = lanes_[program_.lane_of(member)].reduced;
      reduced = std::max(reduced, start + longest);
    }
  }

  void join_step(const LaneState& state) {
    step_.ready = std::max(step_.ready, state.clock);
    if (++step_.arrived < program_.step().members.size()) return;
    for (const int member : program_.step().members)
      step_.ready = std::max(step_.ready, lanes_[program_.lane_of(member)].reduced);
    for (const int member : program_.step().members) {
      ActionTimes& times = times_.actions[member];
      times.start = step_.ready;
      times.end = step_.ready + load_.duration[member];
      LaneState& other = lanes_[program_.lane_of(member)];
      other.clock = times.end;
      ++other.next;
      ready_.push_back(program_.lane_of(member));
    }
  }

  void find_blocked() {
    for (int lane = 0; lane < program_.lanes(); ++lane) {
      const LaneState& state = lanes_[lane];
      times_.makespan = std::max({times_.makespan, state.clock, state.reduced});
      if (state.next < program_.first_action(lane + 1))
        times_.blocked.push_back({.action = state.next, .message = state.waits_for});
    }
  }

  const StepProgram& program_;
  const StepLoad& load_;
  const Network& network_;
  std::vector<LaneState> lanes_;
  std::vector<Meeting> meetings_;
  Meeting step_;
  std::vector<Nanoseconds> usual_travel_;  // [channels]
  std::vector<int> ready_;
  StepTimes times_;
};

}  // namespace

StepTimes run_longest_path(const StepProgram& program, const StepLoad& load,
                           const Network& network) {
  TRIB_CHECK(network.is_unshared(), .what = "plan: shared network needs the event engine");
  return LongestPath(program, load, network).run();
}

}  // namespace tributary::plan
