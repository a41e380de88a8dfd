#pragma once

#include <cstdint>
#include <map>
#include <span>

#include "core/units.h"
#include "schedule/correct_costs/cost_ratios.h"

namespace tributary::schedule {

struct CorrectionOptions {
  std::int64_t warm_up_steps = 20;   // without spans, then as many with: measuring costs
  std::int64_t discarded_steps = 5;  // at the beginning
  std::int64_t window_steps = 50;    // after which the benefit is weighed
  std::int64_t rest_windows = 10;    // windows off, then one on
  std::int64_t memory_steps = 50;    // measured steps after which a measurement weighs 1/e
  double weight_of_one = 1e-3;       // of the prior that costs are as predicted, in buckets
  double lowest_ratio = 0.5;
  double highest_ratio = 4;
  std::int64_t min_buckets = 5;  // with a key before its ratio is used
  double residual_band = 0.1;    // allowed change of measured / predicted step time
  std::int64_t residual_steps = 5;
};

/// A step as the corrector sees it.
struct MeasuredStep {
  Nanoseconds time;
  Nanoseconds predicted;  // by corrected costs
  // The largest bucket when arranged and judged by uncorrected costs: the work in the batch.
  Nanoseconds table;
  std::span<const MeasuredBucket> buckets = {};  // empty while the corrector is not measuring
  // The largest bucket by measured ratios, as judge_arrangement() says, when arranged by
  // uncorrected costs and in the arrangement used.
  Nanoseconds value_without = {};
  Nanoseconds value_used = {};
};

/// What was learned about one key.
struct CostRatio {
  double ratio = 1;  // measured / predicted
  std::int64_t buckets = 0;

  friend bool operator==(const CostRatio&, const CostRatio&) = default;
};

enum class CorrectionPhase { kBaseline, kCosting, kOn, kOff };

/// All state that the correction continues from, for a checkpoint.
struct CorrectionState {
  std::map<CostKey, CostRatio> ratios;
  RatioEquations equations;  // whose solution the ratios are
  CorrectionPhase phase = CorrectionPhase::kBaseline;
  std::int64_t steps = 0;  // in this phase; in kOn: in this window
  // Sums of measured / table time, as if arranged by uncorrected costs, over the steps counted
  // without and with spans.
  double slowness_off = 0;
  double slowness_on = 0;
  double cost = 0;                 // of measuring, as a fraction of a step
  double benefit = 0;              // sum over the steps of this window
  double residual = 0;             // sum of measured / predicted time in this window
  double usual_residual = 1;       // of the last window
  std::int64_t steps_outside = 0;  // in a row, whose residual is out of its band

  friend bool operator==(const CorrectionState&, const CorrectionState&) = default;
};

/// Learns from measured spans by how much the cost table is off for each shape, and whether
/// measuring pays. When it does not, it stops measuring and keeps the ratios.
///
/// The cost of measuring is judged as if steps were arranged without corrections, each against its
/// own batch: otherwise the gain of corrections, or the work in a batch, would be mistaken for it.
///
/// The result is a function of the options and the steps so far.
/// source: DFLOP, section on adaptive correction; ours: one ratio for a key, learned by least
///         squares, and a benefit that is the makespan saved
class CostCorrector {
 public:
  /// errors: Fault::kInput when an option is out of range
  explicit CostCorrector(const CorrectionOptions& options = {}, CorrectionState state = {});

  /// Whether the next step should record its spans. While this is false, no timer and no wait for a
  /// device is needed.
  [[nodiscard]] bool is_measuring() const;
  /// The time that partitioning should use for a predicted time.
  [[nodiscard]] Nanoseconds correct(const CostKey& key, Nanoseconds predicted) const;
  /// The time by what was measured so far, however little, for judging arrangements.
  [[nodiscard]] Nanoseconds judge(const CostKey& key, Nanoseconds predicted) const;

  /// errors: Fault::kInput when a time is not above 0, or unrequested spans are given
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

/// The max load of any bucket in any dimension, with the predicted time of each item corrected by
/// the measured ratio of its key.
///
/// shape: items [items, dimensions], bucket_of [items]
[[nodiscard]] Nanoseconds judge_arrangement(const CostCorrector& corrector,
                                            std::span<const PredictedShare> items,
                                            std::int64_t dimensions,
                                            std::span<const std::int32_t> bucket_of,
                                            std::int64_t buckets);

}  // namespace tributary::schedule
