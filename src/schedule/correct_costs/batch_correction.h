#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/json.h"
#include "schedule/correct_costs/predicted_batch.h"

namespace tributary::schedule {

/// What was known for a batch when it was planned.
class KnownCosts {
 public:
  KnownCosts(CostScales scales, CostCorrector corrector)
      : scales_(std::move(scales)), corrector_(std::move(corrector)) {}
  /// The time to plan by, in that of measurements.
  [[nodiscard]] Nanoseconds correct(const PredictedShare& share) const {
    return corrector_.correct(share.key, scale_time(share.time, scales_.of(share.key.module)));
  }

 private:
  CostScales scales_;
  CostCorrector corrector_;
};

/// Learns by how much predicted times are off, identically on all ranks, for later batches.
///
/// A batch uses what was known `lag` samples before it, however threads run. The lag is large
/// enough that this was known when the batch was planned.
class BatchCorrection {
 public:
  /// units: `lag` in samples: those of the batches planned ahead and of one more; `apart` are the
  ///        chains of encoders with meshes of their own, whose items are dealt
  explicit BatchCorrection(std::int64_t lag, const CorrectionOptions& options = {},
                           std::span<const std::int32_t> apart = {});

  /// The predicted times of a batch with their keys, before it has a plan.
  [[nodiscard]] static PredictedBatch predict(std::span<const SampleLoad> loads);
  /// What the batch that begins with sample `first_index` may know; null: nothing yet. Thread-safe.
  [[nodiscard]] std::shared_ptr<const KnownCosts> known_for(std::int64_t first_index) const;

  /// Learns from a step that all stages of all replicas and seats measured.
  void end_step(std::int64_t first_index, const PredictedBatch& batch,
                std::span<const MeasuredPart> parts);

  [[nodiscard]] const CorrectionState& state() const { return newest_->state(); }
  [[nodiscard]] Json save() const;
  /// Learns anew where the state is of a run with other encoders apart: keys mean something else.
  /// errors: Fault::kInput with ExitCode::kCheckpointRefused naming `where`
  void restore(const Json& json, const std::string& where);

 private:
  void learn(const PredictedBatch& batch, std::span<const MeasuredPart> parts);
  [[nodiscard]] std::vector<MeasuredBucket> measure(const PredictedBatch& batch,
                                                    std::span<const MeasuredPart> parts);
  [[nodiscard]] std::shared_ptr<const KnownCosts> known_now() const;

  std::int64_t lag_;
  CorrectionOptions options_;
  CostScales scales_;  // the encoders apart are those that it has
  std::unique_ptr<CostCorrector> newest_;
  mutable std::mutex mutex_;                                         // guards known_
  std::map<std::int64_t, std::shared_ptr<const KnownCosts>> known_;  // by the batch learned from
};

}  // namespace tributary::schedule
