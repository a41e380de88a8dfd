#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "core/json.h"
#include "schedule/correct_costs/cost_corrector.h"
#include "schedule/step_plan.h"

namespace tributary::schedule {

/// What the correction learns from in a global batch: predicted costs, and who ran it.
struct PredictedBatch {
  std::size_t chains = 1;                          // of the model
  std::vector<PredictedShare> shares;              // [samples, chains] uncorrected
  StepPlan plan;                                   // in use
  std::vector<std::int32_t> replica_without = {};  // [samples] with uncorrected costs
};

/// What one stage of a replica measured in a step.
struct MeasuredPart {
  std::int64_t replica = 0;
  std::vector<double> microbatches;  // seconds of each, without waiting for other ranks
  bool as_planned = true;            // false: they differ from those of the plan
  double step = 0;                   // seconds of the whole step
};

/// Learns by how much predicted times are off, identically on all ranks, for later batches.
///
/// A batch uses what was known `lag` samples before it, however threads run. The lag is large
/// enough that this was known when the batch was planned.
class BatchCorrection {
 public:
  /// units: `lag` in samples: those of the batches planned ahead and of one more
  BatchCorrection(std::int64_t lag, const CorrectionOptions& options = {});

  /// The predicted times of a batch with their keys, before it has a plan.
  [[nodiscard]] static PredictedBatch predict(std::span<const SampleLoad> loads);
  /// Corrected loads of the batch that begins with sample `first_index`. Thread-safe.
  [[nodiscard]] std::vector<SampleLoad> correct(std::int64_t first_index,
                                                std::span<const SampleLoad> predicted,
                                                const PredictedBatch& batch) const;

  /// Learns from a step that all stages of all replicas measured.
  void end_step(std::int64_t first_index, const PredictedBatch& batch,
                std::span<const MeasuredPart> parts);

  [[nodiscard]] const CorrectionState& state() const { return newest_->state(); }
  [[nodiscard]] Json save() const;
  /// errors: Fault::kInput with ExitCode::kCheckpointRefused naming `where`
  void restore(const Json& json, const std::string& where);

 private:
  void learn(const PredictedBatch& batch, std::span<const MeasuredPart> parts);

  std::int64_t lag_;
  CorrectionOptions options_;
  double scale_ = 0;  // measured / predicted in the first measured step; 0: none yet
  std::unique_ptr<CostCorrector> newest_;
  struct Known {
    double scale = 0;
    CostCorrector corrector;
  };
  mutable std::mutex mutex_;                                    // guards known_
  std::map<std::int64_t, std::shared_ptr<const Known>> known_;  // by the batch learned from
};

}  // namespace tributary::schedule
