#pragma once

#include <map>
#include <tuple>
#include <vector>

#include "config/plan.h"
#include "plan/simulate/engine/step_times.h"
#include "plan/simulate/lane_account.h"
#include "plan/simulate/step_bound.h"

namespace tributary::plan {

/// Frozen modules of placement `flow` work on later steps while the backbone trains: nothing comes
/// back to them, so only the pool holds them back. Step follows step; what the lanes ahead have
/// done, and the places that are taken in the pool, go from one to the next. Messages of two steps
/// do not meet on a link.
///
/// source: planning.md section 10.2
class RunAhead {
 public:
  /// How a step finds the lanes ahead and the pool; times count from its own beginning, so that
  /// none is above 0.
  struct Left {
    std::map<int, Nanoseconds> lanes = {};  // of the lanes ahead: since when they are free
    // Of each channel into the pool: when the messages that were last in it were taken.
    std::map<std::tuple<int, int, int>, std::vector<Nanoseconds>> taken = {};

    friend bool operator==(const Left&, const Left&) = default;
  };

  /// Whether a plan has such modules.
  [[nodiscard]] static bool has_any(const config::Plan& plan);

  RunAhead(const config::Plan& plan, const StepProgram& program, const Network& network);

  /// Times a step that finds things as `left` says, and puts into it how it leaves them. Its clock
  /// begins with the step: what was done before takes no time at 0.
  [[nodiscard]] StepTimes time(StepLoad& load, Left& left) const;
  /// Work of the lanes ahead that the step did for the next one is work, not idle time, and the
  /// communication within it communication.
  void account(const StepLoad& load, const StepTimes& times,
               std::vector<LaneAccount>& accounts) const;
  /// The busiest lane and link that are not ahead: the others may have done their part before. Of
  /// steps that are all `equal` and leave things as they found them, the lanes ahead do the work of
  /// one in each.
  [[nodiscard]] StepBound bound(const StepLoad& load, bool equal) const;

 private:
  [[nodiscard]] bool feeds_pool(int channel) const;

  const StepProgram& program_;
  const Network& network_;
  std::vector<bool> is_ahead_;  // [lanes]
};

}  // namespace tributary::plan
