#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tributary::app {

struct RestartLimits {
  std::int64_t restarts = 10;
  double first_pause_seconds = 1;  // doubles with every restart
  double longest_pause_seconds = 60;
  int failures_at_one_step = 3;           // this many make a crash loop
  std::int64_t steps_that_forgive = 100;  // progress that resets the counts of restarts and pauses
};

/// How one attempt of a job ended.
struct AttemptEnd {
  int exit_code = 0;                      // of the root cause; 128 + n where signal n killed it
  std::optional<std::int64_t> step = {};  // null before the first message with a step
  std::string cause = {};
  std::string error = {};  // the error in it, without rank and step
};

/// What the launcher does next: restart after a pause, or exit with a code.
struct NextAction {
  bool restarts = false;
  double pause_seconds = 0;
  int exit_code = 0;
  std::string reason = {};  // empty where the exit code says enough
};

/// Decides after each failed attempt whether to restart, only by how the attempts ended.
///
/// source: docs/theory/reliability.md, "Restarts"
class RestartPolicy {
 public:
  explicit RestartPolicy(RestartLimits limits) : limits_(limits) {}

  [[nodiscard]] NextAction after_failure(const AttemptEnd& end);
  [[nodiscard]] std::int64_t restarts() const { return restarts_; }

 private:
  [[nodiscard]] std::string list_causes() const;

  const RestartLimits limits_;
  std::vector<AttemptEnd> ends_;
  std::int64_t restarts_ = 0;     // since the last reset
  std::int64_t forgiven_at_ = 0;  // step
};

}  // namespace tributary::app
