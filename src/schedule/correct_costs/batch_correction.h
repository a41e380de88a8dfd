#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "core/json.h"
#include "core/sample_shape.h"
#include "schedule/correct_costs/cost_corrector.h"
#include "schedule/step_plan.h"

namespace tributary::schedule {

/// What of a global batch the correction learns from: what was predicted, and who ran it.
struct PredictedBatch {
  std::vector<PredictedShare> shares;              // [samples, 2]: vision, backbone; uncorrected
  StepPlan plan;                                   // in use
  std::vector<std::int32_t> replica_without = {};  // [samples]: by uncorrected costs
};

/// What a stage of a replica measured of a step.
struct MeasuredPart {
  std::int64_t replica = 0;
  std::vector<double> microbatches;  // own seconds of each, without waiting for other ranks
  bool as_planned = true;            // else they are others than those of the plan
  double step = 0;                   // seconds of the whole step
};

/// Learns, equally on all ranks, how far predicted times are off, and corrects those of later
/// batches.
///
/// A batch is planned by what was known a fixed number of batches before, whatever the threads do:
/// so many that it was known when the batch was planned.
class BatchCorrection {
 public:
  /// units: `lag` in samples: those of the batches planned ahead and of one more
  BatchCorrection(std::int64_t lag, const CorrectionOptions& options = {});

  /// The two predicted times of a sample with their keys.
  [[nodiscard]] static std::vector<PredictedShare> shares_of(const SampleShape& shape,
                                                             const SampleLoad& predicted);
  /// Corrected loads of the batch that begins with sample `first_index`. From any thread.
  [[nodiscard]] std::vector<SampleLoad> correct(std::int64_t first_index,
                                                std::span<const SampleLoad> predicted,
                                                std::span<const PredictedShare> shares) const;

  /// Takes in a step that all stages of all replicas measured.
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
  double scale_ = 0;  // measured / predicted of the first step measured; 0: none yet
  std::unique_ptr<CostCorrector> newest_;
  struct Known {
    double scale = 0;
    CostCorrector corrector;
  };
  mutable std::mutex mutex_;                                    // guards known_
  std::map<std::int64_t, std::shared_ptr<const Known>> known_;  // after the batch that begins there
};

}  // namespace tributary::schedule
