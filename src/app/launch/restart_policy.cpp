#include "app/launch/restart_policy.h"

#include <algorithm>
#include <cmath>

#include "core/exit_code.h"
#include "core/text.h"

namespace tributary::app {

std::string RestartPolicy::list_causes() const {
  std::string list;
  for (std::size_t i = 0; i < ends_.size(); ++i)
    list += str("\n  attempt ", i, ", exit code ", ends_[i].exit_code, ": ", ends_[i].cause);
  return list;
}

NextAction RestartPolicy::after_failure(const AttemptEnd& end) {
  ends_.push_back(end);
  if (!is_worth_a_restart(end.exit_code) || limits_.restarts == 0)
    return {.exit_code = end.exit_code};
  const int crash_loop = static_cast<int>(ExitCode::kCrashLoop);
  const auto at_this_step = std::count_if(
      ends_.begin(), ends_.end(), [&](const AttemptEnd& each) { return each.step == end.step; });
  if (at_this_step >= limits_.failures_at_one_step)
    return {.exit_code = crash_loop,
            .reason = str("crash loop: ", at_this_step, " failures ",
                          end.step ? str("at step ", *end.step) : std::string("before any step"),
                          list_causes())};
  if (end.step && *end.step - forgiven_at_ >= limits_.steps_that_forgive) {
    restarts_ = 0;
    forgiven_at_ = *end.step;
  }
  if (restarts_ >= limits_.restarts)
    return {.exit_code = crash_loop,
            .reason = str("restart limit: ", restarts_, " restarts", list_causes())};
  const double pause = limits_.first_pause_seconds * std::pow(2.0, static_cast<double>(restarts_));
  ++restarts_;
  return {.restarts = true, .pause_seconds = std::min(pause, limits_.longest_pause_seconds)};
}

}  // namespace tributary::app
