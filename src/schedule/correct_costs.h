#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "core/units.h"

namespace tributary::schedule {

/// Which costs deviate together: items of about the same shape on the same module.
struct CostKey {
  std::int32_t module = 0;  // an encoder's or the backbone's number in the plan
  std::int32_t tp = 1;
  std::int32_t size = 0;     // quarter_octave() of tiles or packed tokens
  std::int32_t longest = 0;  // quarter_octave() of the longest sample; 0 for encoders

  friend auto operator<=>(const CostKey&, const CostKey&) = default;
};

/// floor(4 * log2(count)); 0 for a count below 1.
[[nodiscard]] std::int32_t quarter_octave(std::int64_t count);

/// Part of a bucket's predicted time.
struct PredictedShare {
  CostKey key;
  Nanoseconds time;  // by the table, uncorrected, of the bucket's items with this key
};

/// One module's work in one bucket: what was predicted and what it took.
struct MeasuredBucket {
  std::vector<PredictedShare> shares;  // one for each key
  Nanoseconds time;
};

struct CorrectionOptions {
  std::int64_t warm_up_steps = 20;   // without spans, then as many with them: what measuring costs
  std::int64_t discarded_steps = 5;  // of the first
  std::int64_t window_steps = 50;    // after which the benefit is weighed
  std::int64_t rest_windows = 10;    // off for so many windows, then on for one
  double rate = 0.3;                 // of learning
  double lowest_ratio = 0.5;
  double highest_ratio = 4;
  std::int64_t least_buckets = 5;  // seen of a key before its ratio is used
  double residual_band = 0.1;  // measured / predicted step time, against that of the last window
  std::int64_t residual_steps = 5;
};

/// A step as the corrector sees it.
struct MeasuredStep {
  Nanoseconds time;
  Nanoseconds predicted;                         // by corrected costs
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
  CorrectionPhase phase = CorrectionPhase::kBaseline;
  std::int64_t steps = 0;          // in this phase; of kOn: in this window
  double seconds_off = 0;          // of the steps counted without spans
  double seconds_on = 0;           // of the steps counted with them
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
/// What comes out is a function of the options and the steps so far.
/// source: DFLOP, section on adaptive correction; ours: one ratio for a key, learned by normalised
///         least mean squares (Widrow 1960, "Adaptive switching circuits"), and a benefit that is
///         the makespan saved
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
  void learn(const MeasuredBucket& bucket);
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
