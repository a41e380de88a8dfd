#include "core/error.h"
#include "simulate/engine/contention.h"
#include "simulate/engine/meetings.h"
#include "simulate/engine/step_times.h"

namespace tributary::simulate {

/// Times that obey all rules of the events are the result of the events. The longest path obeys all
/// rules except the limits of shared resources, so only these need a check.
StepTimes time_step(const StepProgram& program, const StepLoad& load, const Network& network) {
  check_load(program, load, network);
  if (lacks_cores(program, network)) return run_events(program, load, network);
  StepTimes times = run_longest_path(program, load, network);
  if (!times.blocked.empty()) return run_events(program, load, network);
  const std::vector<std::vector<int>> groups = find_contention(program, network, times);
  if (!groups.empty()) {
    rerun_groups(program, load, network, groups, times);
    hold_meetings(program, load, times);
  }
  return slows_a_pass(program, network, times) ? run_events(program, load, network)
                                               : std::move(times);
}

std::string describe_blocked(const StepProgram& program, const StepTimes& times) {
  std::string text;
  for (const BlockedAction& each : times.blocked) {
    text += str(text.empty() ? "" : "; ", describe(program, each.action), " waits for ");
    if (each.message < 0) {
      text += "the other lanes";
      continue;
    }
    const Message& message = program.messages()[each.message];
    const int other = program.kind(each.action) == StepKind::kPass ? message.send : message.receive;
    text += other < 0 ? "what no list has" : describe(program, other);
  }
  return text;
}

}  // namespace tributary::simulate
