#include "simulate/critical_path.h"

#include <algorithm>

#include "core/error.h"

namespace tributary::simulate {
namespace {

/// Walks back from the end of the step: for each action it finds what let it start when it did.
class PathWalk {
 public:
  PathWalk(const StepProgram& program, const Network& network, const StepTimes& times)
      : program_(program), network_(network), times_(times) {}

  std::vector<PathPart> run() {
    int action = last();
    while (action >= 0) action = before(action);
    std::reverse(path_.begin(), path_.end());
    return std::move(path_);
  }

 private:
  [[nodiscard]] int last() const {
    int found = -1;
    for (int action = 0; action < program_.actions(); ++action)
      if (times_.actions[action].end == times_.makespan &&
          (found < 0 || times_.actions[found].end < times_.makespan))
        found = action;
    return found;
  }

  /// Adds the action and returns the one it waited for; -1 when it started with the step.
  int before(int action) {
    const ActionTimes& at = times_.actions[action];
    if (at.end > at.start)
      path_.push_back({.action = action,
                       .message = -1,
                       .lane = program_.lane_of(action),
                       .start = at.start,
                       .end = at.end});
    return cause_of_start(action);
  }

  [[nodiscard]] int cause_of_start(int action) {
    const ActionTimes& at = times_.actions[action];
    switch (program_.kind(action)) {
      case StepKind::kReduce:
        return before_meeting(program_.reductions()[program_.reduction_of(action)], at.start);
      case StepKind::kOptimize:
        return before_step(action);
      case StepKind::kPass:
        return at.start == at.reached ? before_on_lane(action) : before_pass(action);
      default:
        return at.start == at.reached ? before_on_lane(action) : before_send(action);
    }
  }

  /// Skips reductions: they do not occupy the lane.
  [[nodiscard]] int before_on_lane(int action) const {
    const int first = program_.first_action(program_.lane_of(action));
    for (--action; action >= first; --action)
      if (program_.kind(action) != StepKind::kReduce) return action;
    return -1;
  }

  int before_pass(int action) {
    for (const int message : program_.messages_of(action))
      if (times_.messages[message].arrived == times_.actions[action].start) return travel(message);
    TRIB_RAISE(Fault::kBug, .what = "simulate: pass starts without a cause",
               .where = describe(program_, action));
  }

  /// The send waited for a buffer until an earlier message arrived, or left the pool.
  int before_send(int action) {
    const Nanoseconds start = times_.actions[action].start;
    for (const int message : program_.messages_of(action)) {
      const auto [earlier, in_pool] = buffer_before(program_, network_, message);
      if (earlier < 0 || times_.messages[earlier].freed(in_pool) != start) continue;
      return in_pool ? cause_of_start(program_.user_of(earlier)) : travel(earlier);
    }
    TRIB_RAISE(Fault::kBug, .what = "simulate: send starts without a cause",
               .where = describe(program_, action));
  }

  int travel(int message) {
    const MessageTimes& at = times_.messages[message];
    const Message& of = program_.messages()[message];
    if (at.arrived > at.begun())
      path_.push_back({.action = -1,
                       .message = message,
                       .lane = program_.channels()[of.channel].to,
                       .start = at.begun(),
                       .end = at.arrived});
    const bool sender_is_late = at.given >= at.posted;
    return sender_is_late ? of.send : of.receive;
  }

  /// The step of a module before it on its ranks, or else what all lanes waited for. Steps between
  /// them may take no time.
  [[nodiscard]] int before_step(int action) const {
    const Nanoseconds start = times_.actions[action].start;
    for (int place = program_.place_of_step(action) - 1; place >= 0; --place)
      for (const int first : program_.shared_steps()[static_cast<std::size_t>(place)])
        if (times_.actions[first].end == start && times_.actions[first].start < start) return first;
    return before_meeting(program_.step(), start);
  }

  /// The lane that arrived last, or the reduction that ended last.
  [[nodiscard]] int before_meeting(const StepMeeting& meeting, Nanoseconds start) const {
    for (const int member : meeting.members)
      if (times_.actions[member].reached == start) return before_on_lane(member);
    for (const int before : meeting.before)
      if (const int member = program_.reductions()[before].members.front();
          times_.actions[member].end == start)
        return member;
    for (const StepMeeting& reduction : program_.reductions())
      if (times_.actions[reduction.members.front()].end == start) return reduction.members.front();
    TRIB_RAISE(Fault::kBug, .what = "simulate: meeting starts without a cause");
  }

  const StepProgram& program_;
  const Network& network_;
  const StepTimes& times_;
  std::vector<PathPart> path_;
};

}  // namespace

std::vector<PathPart> critical_path(const StepProgram& program, const Network& network,
                                    const StepTimes& times) {
  TRIB_CHECK(times.blocked.empty(), .what = "simulate: step that never ends has no critical path",
             .found = describe_blocked(program, times));
  return PathWalk(program, network, times).run();
}

}  // namespace tributary::simulate
