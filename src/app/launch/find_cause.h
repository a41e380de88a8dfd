#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>

#include "app/launch/restart_policy.h"

namespace tributary::app {

/// How one rank ended.
struct RankEnd {
  int rank = 0;
  int exit_code = 0;                   // 128 + n where signal n killed it
  double at_seconds = 0;               // steady clock
  bool was_stopped = false;            // by the launcher, because another rank had failed
  std::deque<std::string> lines = {};  // the last lines of its output
  std::deque<std::string> held = {};   // of rank 0: the lines that were not printed yet
};

/// Whether an error begins in the line; `[rank 3 step 1207]` may stand before it.
[[nodiscard]] bool is_error_line(const std::string& line);

/// Picks the rank whose end explains the others: by cause_order of the exit codes, then the first
/// to end, and one that the launcher stopped only as the last resort. The cause is the last error
/// of that rank with all its lines. A killed rank printed none: then it is one of the others.
///
/// errors: Fault::kBug when no rank failed
[[nodiscard]] AttemptEnd find_cause(std::span<const RankEnd> ends);

/// The lines without those of the error, whichever rank reported it.
[[nodiscard]] std::deque<std::string> without_error(const std::deque<std::string>& lines,
                                                    const std::string& error);

}  // namespace tributary::app
