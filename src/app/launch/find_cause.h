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
};

/// Picks the rank whose end explains the others: by cause_order of the exit codes, then the first
/// to end; a rank that the launcher stopped explains nothing. The cause is the last line of that
/// rank that reads like an error; of a killed rank, what the others say of it.
///
/// errors: Fault::kBug when no rank failed
[[nodiscard]] AttemptEnd find_cause(std::span<const RankEnd> ends);

}  // namespace tributary::app
