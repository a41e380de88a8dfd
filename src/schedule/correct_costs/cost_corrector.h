#pragma once

#include <cstdint>
#include <map>
#include <span>

#include "core/units.h"
#include "schedule/correct_costs/cost_ratios.h"

namespace tributary::schedule {

struct CorrectionOptions {
  std::int64_t warm_up_steps = 20;   // without spans, then as many with them: what measuring costs
  std::int64_t discarded_steps = 5;  // of the first
  std::int64_t window_steps = 50;    // after which the benefit is weighed
  std::int64_t rest_windows = 10;    // off for so many windows, then on for one
  std::int64_t memory_steps = 50;    // measured ones, after which a measurement counts 1/e
  double weight_of_one = 1e-3;       // of the belief that costs are as predicted, in buckets
  double lowest_ratio = 0.5;
  double highest_ratio = 4;
  std::int64_t least_buckets = 5;  // seen of a key before its ratio is used
  double residual_band = 0.1;  // measured / predicted step time, against that of the last window
  std::int64_t residual_steps = 5;
};

/// A step as the corrector sees it.
struct MeasuredStep {
  Nanoseconds time;
  Nanoseconds predicted;  // by corrected costs
  // The largest bucket of the arrangement that uncorrected costs give, by those costs alone: how
  // much work the batch is.
  Nanoseconds table;
  std::span<const MeasuredBucket> buckets = {};  // empty while the corrector is not measuring
  // The largest bucket, judged by measured ratios, of the arrangement that uncorrected costs give
  // and of the one in use: what judge_arrangement() says of each.
  Nanoseconds value_without = {};
  Nanoseconds value_used = {};
};

/// What is learned of one key.
struct CostRatio {
  double ratio = 1;  // measured / predicted
  std::int64_t buckets = 0;

  friend bool operator==(const CostRatio&, const CostRatio&) = default;
};

enum class CorrectionPhase { kBaseline, kCosting, kOn, kOff };

/// All that decides how correction goes on, for a checkpoint.
struct CorrectionState {
  std::map<CostKey, CostRatio> ratios;
  RatioEquations equations;  // that they solve
  CorrectionPhase phase = CorrectionPhase::kBaseline;
  std::int64_t steps = 0;  // in this phase; of kOn: in this window
  // Measured / table time, as if arranged by uncorrected costs, summed over the steps counted
  // without and with spans.
  double slowness_off = 0;
  double slowness_on = 0;
  double cost = 0;                 // of measuring, as a share of a step
  double benefit = 0;              // of the steps of this window, summed
  double residual = 0;             // measured / predicted time of the steps of this window, summed
  double usual_residual = 1;       // of the last window
  std::int64_t steps_outside = 0;  // in a row, with the residual out of its band

  friend bool operator==(const CorrectionState&, const CorrectionState&) = default;
};

/// Learns from measured spans how far the cost table is off for each shape, and whether measuring
/// pays; when it does not, it switches the measuring off and keeps the ratios.
///
/// What measuring costs is judged on steps as they would have been without corrections, each
/// against its own batch, so that neither what corrections save nor how much work a batch happens
/// to be is taken for it.
///
/// What comes out is a function of the options and the steps so far.
/// source: DFLOP, section on adaptive correction; ours: one ratio for a key, learned by least
///         squares, and a benefit that is the makespan saved
class CostCorrector {
 public:
  /// errors: Fault::kInput when an option is out of range
  explicit CostCorrector(const CorrectionOptions& options = {}, CorrectionState state = {});

  /// Whether the next step is to record its spans. While this is false nothing needs a timer or a
  /// wait for a device.
  [[nodiscard]] bool is_measuring() const;
  /// What partitioning is to take for a predicted time.
  [[nodiscard]] Nanoseconds correct(const CostKey& key, Nanoseconds predicted) const;
  /// What was measured so far, however little: for judging arrangements.
  [[nodiscard]] Nanoseconds judge(const CostKey& key, Nanoseconds predicted) const;

  /// errors: Fault::kInput when a time is not above 0, or spans come although none were asked for
  void end_step(const MeasuredStep& step);

  [[nodiscard]] const CorrectionState& state() const { return state_; }

 private:
  void learn(std::span<const MeasuredBucket> buckets);
  void enter(CorrectionPhase phase);
  void weigh_cost();
  void end_window();
  void watch_residual(double residual);

  CorrectionOptions options_;
  CorrectionState state_;
};

/// The largest load of any bucket in any dimension, each item's predicted time being that which the
/// corrector has measured for its key.
///
/// shape: items [items, dimensions], bucket_of [items]
[[nodiscard]] Nanoseconds judge_arrangement(const CostCorrector& corrector,
                                            std::span<const PredictedShare> items,
                                            std::int64_t dimensions,
                                            std::span<const std::int32_t> bucket_of,
                                            std::int64_t buckets);

}  // namespace tributary::schedule
