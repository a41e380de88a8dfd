#pragma once

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "config/plan/plan.h"
#include "simulate/engine/lane_account.h"
#include "simulate/engine/step_times.h"
#include "simulate/program/step_bound.h"

namespace tributary::simulate {

/// Frozen modules with placement `flow` work on later steps while the backbone trains. No gradients
/// come back to them, so only the pool limits how far ahead they get. Steps run one after another
/// and pass on the progress of these lanes and the occupied slots of the pool. Messages of two
/// steps never share a link.
///
/// They may also work in whole batches, each encoded before the backbone begins with it. Then the
/// number of batches that they may be ahead is the limit instead of the pool. With 0 the modules
/// take turns (`serial`), with 1 a batch is encoded beside the one before it (`dbuf`).
///
/// source: docs/theory/planning.md, "Encoders that run ahead"
class RunAhead {
 public:
  /// The state of the lanes ahead and of the pool at the beginning of a step. Times are relative to
  /// that beginning, so none is above 0.
  struct Left {
    std::map<int, Nanoseconds> lanes = {};  // of the lanes ahead: when each is free
    // For each channel into the pool, when its last messages left the pool.
    std::map<std::tuple<int, int, int>, std::vector<Nanoseconds>> taken = {};
    // With whole batches: when the last ones began, at most as many as may be ahead, without those
    // that can no longer hold back any lane.
    std::vector<Nanoseconds> begun = {};

    friend bool operator==(const Left&, const Left&) = default;
  };

  /// Whether a plan has such modules.
  [[nodiscard]] static bool has_any(const config::Plan& plan);

  /// Edges whose features are encoded ahead.
  ///
  /// shape: [edges]
  [[nodiscard]] static std::vector<bool> edges_ahead(const config::Plan& plan,
                                                     const schedule::PipelineMap& map);

  /// Refuses batches ahead where no module can run ahead: nothing may train behind it.
  ///
  /// errors: Fault::kInput naming `where` unless the plan has such a module or batches_ahead is -1
  static void check_batches_ahead(const config::Plan& plan, std::int64_t batches_ahead,
                                  const std::string& where = "batches_ahead");

  /// batches_ahead: the max number of whole batches ahead; `program` must have these edges_ahead()
  /// as whole batches. -1: microbatch by microbatch, as far as the pool allows
  RunAhead(const config::Plan& plan, const StepProgram& program, const Network& network,
           int batches_ahead = -1);

  /// Times a step that begins in the state `left`, and leaves its own state there. The clock starts
  /// with the step, so work done before takes no time at 0.
  [[nodiscard]] StepTimes time(StepLoad& load, Left& left) const;
  /// Counts work that lanes ahead did for the next step as compute, and its communication as such,
  /// instead of idle time.
  void account(const StepLoad& load, const StepTimes& times,
               std::vector<LaneAccount>& accounts) const;
  /// The lanes for bound_step; empty when no batch may be ahead. When all steps are `equal` and
  /// keep the state as it was, each does the work of one step.
  [[nodiscard]] LanesAhead lanes_ahead(bool equal) const;

 private:
  [[nodiscard]] bool feeds_pool(int channel) const;
  [[nodiscard]] Nanoseconds begin_lanes(const Left& left, StepLoad& load) const;
  void fill_pool(const Left& left, Nanoseconds begin, StepLoad& load) const;
  void leave_lanes(const StepTimes& times, Left& left) const;
  void leave_pool(const StepTimes& times, Nanoseconds begin, Left& left) const;
  void leave_batch(const StepTimes& times, Nanoseconds begin, Left& left) const;

  const StepProgram& program_;
  const Network& network_;
  int batches_ahead_;
  std::vector<bool> is_ahead_;  // [lanes]
};

}  // namespace tributary::simulate
