#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "core/units.h"
#include "simulate/program/step_load.h"

namespace tributary::simulate {

inline constexpr Nanoseconds kNever{-1};

/// When one action runs. A lane is free again at the end; a reduction holds no lane: it starts and
/// ends on the collective stream.
struct ActionTimes {
  Nanoseconds reached = kNever;  // the lane is done with all before it
  Nanoseconds start = kNever;
  Nanoseconds end = kNever;
};

struct MessageTimes {
  Nanoseconds given = kNever;    // by the sender
  Nanoseconds posted = kNever;   // by the receiver; with a pool: as given
  Nanoseconds arrived = kNever;  // when the receiver may use it
  Nanoseconds taken = kNever;    // when the pass that needs it starts

  [[nodiscard]] Nanoseconds begun() const { return std::max(given, posted); }
  /// When it gives its buffer, or its place in the pool, to another.
  [[nodiscard]] Nanoseconds freed(bool in_pool) const { return in_pool ? taken : arrived; }
};

/// The message whose buffer, or place in the pool, another one gets.
struct BufferBefore {
  int message = -1;  // -1: there is one that nobody had
  bool in_pool = false;
};
[[nodiscard]] inline BufferBefore buffer_before(const StepProgram& program, const Network& network,
                                                int message) {
  const int channel = program.messages()[message].channel;
  const int capacity = network.routes[channel].capacity;
  const int places = capacity > 0 ? capacity : program.channels()[channel].send_buffers;
  return {.message = program.earlier(message, places), .in_pool = capacity > 0};
}

/// A lane that cannot go on.
struct BlockedAction {
  int action = 0;
  int message = -1;  // that it waits for; -1: other lanes at a meeting
};

/// What an engine finds.
struct StepTimes {
  Nanoseconds makespan = {};
  std::vector<ActionTimes> actions;
  std::vector<MessageTimes> messages;
  std::vector<Nanoseconds> before = {};  // [messages] that a message arrived before the step began;
                                         // empty: none did
  int batches_ahead = 0;                 // at most so many whole batches arrive so
  std::vector<BlockedAction> blocked;    // empty unless the step never ends
};

/// Longest path: lanes keep their order, every message has its way to itself and no pass slows
/// down, so the order of evaluation does not matter.
///
/// cost:   O(actions + messages), some 10 ns each
[[nodiscard]] StepTimes run_longest_path(const StepProgram& program, const StepLoad& load,
                                         const Network& network);

/// Event after event in time: messages share links max-min fair, passes slow down beside a
/// reduction and where lanes ask for more cores than there are.
///
/// cost: O(log(lanes)) for each action, plus the flows of the full links that a message meets, and
///       where cores are shared the lanes of a pass's machine
[[nodiscard]] StepTimes run_events(const StepProgram& program, const StepLoad& load,
                                   const Network& network);

/// Runs groups of lanes again, each by itself, and puts their times in the place of those in
/// `times`: messages begin and end in the order of time and share links as in run_events(), while
/// each lane goes on by itself until it waits for a message. Reductions and the step are not held,
/// and passes do not slow down.
///
/// shape: groups of lanes that no channel and no link leaves
/// cost:  O(log(messages under way)) for each message, plus the flows of the full links that it
///        meets
void rerun_groups(const StepProgram& program, const StepLoad& load, const Network& network,
                  const std::vector<std::vector<int>>& groups, StepTimes& times);

/// What run_events gives, to the bit: found by longest path, by rerun_groups() for the groups of
/// lanes that share a link which is not enough for all, and by events where a pass slows down.
///
/// errors: Fault::kInput as check_load; a step that never ends is a result with `blocked`
[[nodiscard]] StepTimes time_step(const StepProgram& program, const StepLoad& load,
                                  const Network& network);

/// `F0.1 of backbone replica 0 stage 1 waits for SF0.1 of ...; ...`
[[nodiscard]] std::string describe_blocked(const StepProgram& program, const StepTimes& times);

}  // namespace tributary::simulate
