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

/// Frozen modules of placement `flow` work on later steps while the backbone trains: nothing comes
/// back to them, so only the pool holds them back. Step follows step; what the lanes ahead have
/// done, and the places that are taken in the pool, go from one to the next. Messages of two steps
/// do not meet on a link.
///
/// Or they work in whole batches, each encoded before the backbone begins with it: then not the
/// pool holds them back but how many batches they may be ahead. With 0 modules take turns
/// (`serial`), with 1 a batch is encoded beside the one before it (`dbuf`).
///
/// source: docs/theory/planning.md, "Encoders that run ahead"
class RunAhead {
 public:
  /// How a step finds the lanes ahead and the pool; times count from its own beginning, so that
  /// none is above 0.
  struct Left {
    std::map<int, Nanoseconds> lanes = {};  // of the lanes ahead: since when they are free
    // Of each channel into the pool: when the messages that were last in it were taken.
    std::map<std::tuple<int, int, int>, std::vector<Nanoseconds>> taken = {};
    // With whole batches: when the last ones, at most so many as may be ahead, were begun; without
    // those that can hold no lane back any more.
    std::vector<Nanoseconds> begun = {};

    friend bool operator==(const Left&, const Left&) = default;
  };

  /// Whether a plan has such modules.
  [[nodiscard]] static bool has_any(const config::Plan& plan);

  /// Edges along which features come that were encoded ahead.
  ///
  /// shape: [edges]
  [[nodiscard]] static std::vector<bool> edges_ahead(const config::Plan& plan,
                                                     const schedule::PipelineMap& map);

  /// Nothing may run back through a module that works in whole batches.
  ///
  /// errors: Fault::kInput naming `where` when no module of the plan does, unless batches_ahead is
  ///         -1
  static void check_batches_ahead(const config::Plan& plan, std::int64_t batches_ahead,
                                  const std::string& where = "batches_ahead");

  /// shape: batches_ahead: how far whole batches may be ahead, of a program that was made for them
  ///        on edges_ahead(); -1: one microbatch after another, as far as the pool lets it
  RunAhead(const config::Plan& plan, const StepProgram& program, const Network& network,
           int batches_ahead = -1);

  /// Times a step that finds things as `left` says, and puts into it how it leaves them. Its clock
  /// begins with the step: what was done before takes no time at 0.
  [[nodiscard]] StepTimes time(StepLoad& load, Left& left) const;
  /// Work of the lanes ahead that the step did for the next one is work, not idle time, and the
  /// communication within it communication.
  void account(const StepLoad& load, const StepTimes& times,
               std::vector<LaneAccount>& accounts) const;
  /// None where no batch is ahead. Of steps that are all `equal` and leave things as they found
  /// them, they do the work of one in each.
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
