#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "core/units.h"
#include "simulate/program/step_load.h"

namespace tributary::simulate {

inline constexpr Nanoseconds kNever{-1};

/// When an action runs. The lane is free again at its end, except for a reduction, which runs on
/// the collective stream.
struct ActionTimes {
  Nanoseconds reached = kNever;  // when the lane has finished all before it
  Nanoseconds start = kNever;
  Nanoseconds end = kNever;
};

struct MessageTimes {
  Nanoseconds given = kNever;    // when the sender is ready
  Nanoseconds posted = kNever;   // when the receiver is ready; with a pool: as `given`
  Nanoseconds arrived = kNever;  // when the receiver may use it
  Nanoseconds taken = kNever;    // when the pass that needs it starts

  [[nodiscard]] Nanoseconds begun() const { return std::max(given, posted); }
  /// When its buffer, or its slot in the pool, is free again.
  [[nodiscard]] Nanoseconds freed(bool in_pool) const { return in_pool ? taken : arrived; }
};

/// The message whose buffer, or slot in the pool, another one reuses.
struct BufferBefore {
  int message = -1;  // -1: an unused buffer is free
  bool in_pool = false;
};
[[nodiscard]] inline BufferBefore buffer_before(const StepProgram& program, const Network& network,
                                                int message) {
  const int channel = program.messages()[message].channel;
  const int capacity = network.routes[channel].capacity;
  const int places = capacity > 0 ? capacity : program.channels()[channel].send_buffers;
  return {.message = program.earlier(message, places), .in_pool = capacity > 0};
}

/// A lane that cannot continue.
struct BlockedAction {
  int action = 0;
  int message = -1;  // the message it waits for; -1: other lanes at a meeting
};

/// The result of an engine.
struct StepTimes {
  Nanoseconds makespan = {};
  std::vector<ActionTimes> actions;
  std::vector<MessageTimes> messages;
  std::vector<Nanoseconds> before = {};  // [messages] how long before the step each arrived;
                                         // empty: none did
  int batches_ahead = 0;                 // max number of whole batches that arrive so
  std::vector<BlockedAction> blocked;    // empty unless the step never ends
};

/// The longest path: lanes keep their order, no message shares a link and no pass slows down, so
/// the order of evaluation does not matter.
///
/// cost:   O(actions + messages), some 10 ns each
[[nodiscard]] StepTimes run_longest_path(const StepProgram& program, const StepLoad& load,
                                         const Network& network);

/// Event by event in time: messages share links max-min fair; passes slow down beside a reduction,
/// and where lanes want more cores than there are.
///
/// cost: O(log(lanes)) for each action, plus the flows on the full links of each message, plus,
///       where cores are shared, the lanes of a machine for each pass
[[nodiscard]] StepTimes run_events(const StepProgram& program, const StepLoad& load,
                                   const Network& network);

/// Runs groups of lanes again, each group separately, and replaces their times in `times`. Messages
/// begin and end in the order of time and share links as in run_events(), while each lane runs
/// until it waits for a message. It leaves out reductions and the step; passes do not slow down.
///
/// shape: groups of lanes that no channel and no link connects to other lanes
/// cost:  O(log(messages in flight)) for each message, plus the flows on its full links
void rerun_groups(const StepProgram& program, const StepLoad& load, const Network& network,
                  const std::vector<std::vector<int>>& groups, StepTimes& times);

/// The result of run_events, to the bit, but faster: by the longest path; by rerun_groups() for
/// lanes that share a link which is too narrow; and by events only where a pass slows down.
///
/// errors: Fault::kInput as check_load; a step that never ends is a result with `blocked`
[[nodiscard]] StepTimes time_step(const StepProgram& program, const StepLoad& load,
                                  const Network& network);

/// `F0.1 of backbone replica 0 stage 1 waits for SF0.1 of ...; ...`
[[nodiscard]] std::string describe_blocked(const StepProgram& program, const StepTimes& times);

}  // namespace tributary::simulate
