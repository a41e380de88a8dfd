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
  int exit_code = 0;                   // 128 + n: killed by signal n
  double at_seconds = 0;               // steady clock
  bool was_stopped = false;            // by the launcher, because another one had failed
  std::deque<std::string> lines = {};  // the last of its output
  std::deque<std::string> held = {};   // of rank 0: those of them that were not passed on
};

/// Whether an error begins in the line, behind the rank and step that may stand in front of it.
[[nodiscard]] bool is_error_line(const std::string& line);

/// Picks the rank whose end explains the others: by cause_order of the exit codes, then the first
/// to end; a rank that the launcher stopped explains nothing. The cause is the last error of that
/// rank, with all its lines; of a killed rank, what the others say of it.
///
/// errors: Fault::kBug when no rank failed
[[nodiscard]] AttemptEnd find_cause(std::span<const RankEnd> ends);

/// The lines that are no part of that error, whatever rank it came from.
[[nodiscard]] std::deque<std::string> without_error(const std::deque<std::string>& lines,
                                                    const std::string& error);

}  // namespace tributary::app
