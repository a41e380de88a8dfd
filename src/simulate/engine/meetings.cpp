#include "simulate/engine/meetings.h"

#include <algorithm>

namespace tributary::simulate {
namespace {

bool are_all_there(const StepMeeting& meeting, const StepTimes& times) {
  return std::all_of(meeting.members.begin(), meeting.members.end(),
                     [&](int member) { return times.actions[member].reached != kNever; });
}

/// A reduction also waits for the reductions before it on its members' collective streams.
void hold_reduction(const StepMeeting& meeting, const StepProgram& program, const StepLoad& load,
                    StepTimes& times) {
  if (!are_all_there(meeting, times)) return;
  Nanoseconds start;
  Nanoseconds longest;
  for (const int before : meeting.before) {
    const Nanoseconds end = times.actions[program.reductions()[before].members.front()].end;
    if (end == kNever) return;
    start = std::max(start, end);
  }
  for (const int member : meeting.members) {
    start = std::max(start, times.actions[member].reached);
    longest = std::max(longest, load.duration[member]);
  }
  for (const int member : meeting.members) {
    times.actions[member].start = start;
    times.actions[member].end = start + longest;
  }
}

void hold_step(const StepProgram& program, const StepLoad& load, StepTimes& times) {
  Nanoseconds start = times.makespan;  // the latest end of a reduction
  for (const int member : program.step().members)
    start = std::max(start, times.actions[member].reached);
  for (const int member : program.step().members) times.actions[member].start = start;
  for (const std::vector<int>& of_module : program.shared_steps()) {
    Nanoseconds longest;
    for (const int member : of_module) {
      times.actions[member].start = start;
      longest = std::max(longest, load.duration[member]);
    }
    start += longest;
  }
  for (const int member : program.step().members)
    times.actions[member].end = times.actions[member].start + load.duration[member];
}

}  // namespace

void hold_meetings(const StepProgram& program, const StepLoad& load, StepTimes& times) {
  times.makespan = {};
  for (const StepMeeting& reduction : program.reductions()) {
    hold_reduction(reduction, program, load, times);
    times.makespan = std::max(times.makespan, times.actions[reduction.members.front()].end);
  }
  if (times.blocked.empty()) {
    hold_step(program, load, times);
  } else {
    for (const int member : program.step().members)
      if (times.actions[member].reached != kNever) times.blocked.push_back({.action = member});
    std::sort(times.blocked.begin(), times.blocked.end(),
              [](const BlockedAction& a, const BlockedAction& b) { return a.action < b.action; });
  }
  for (int lane = 0; lane < program.lanes(); ++lane)
    if (const int end = program.first_action(lane + 1); end > program.first_action(lane))
      times.makespan = std::max(times.makespan, times.actions[end - 1].end);
}

}  // namespace tributary::simulate
