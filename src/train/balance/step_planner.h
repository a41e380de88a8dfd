#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "config/family/model_config.h"
#include "config/run/run_config.h"
#include "core/sample_shape.h"
#include "mesh/mesh.h"
#include "schedule/correct_costs/batch_correction.h"
#include "schedule/deal_media.h"
#include "schedule/step_plan.h"
#include "train/placement/run_lanes.h"

namespace tributary::train {

class MeasuredTimes;

/// A global batch whose media are encoded on other ranks than those of the samples' replicas: what
/// every rank knows of it.
struct DealtMedia {
  std::vector<SampleShape> shapes;                 // of all samples
  std::vector<std::int32_t> replica_of;            // [samples]
  std::vector<schedule::PackedBins> microbatches;  // [replicas] bins of samples of the batch
  DealtItems items;
  std::shared_ptr<const schedule::KnownCosts> known = {};  // by which they are; null: uncorrected
};

/// A global batch as it was planned, and the part that this rank's replica trains on.
struct PlannedStep {
  std::int64_t fingerprint = 0;       // of the plan, the same on all ranks
  double gap = 0;                     // of the plan, above its bound
  std::vector<SampleShape> shapes;    // of the replica's samples, in the order of the batch
  schedule::PackedBins microbatches;  // bins of places in `shapes`
  std::optional<schedule::PredictedBatch> predicted =
      {};                                // of the whole batch, where costs are corrected
  std::optional<DealtMedia> media = {};  // where encoders have ranks of their own
};

/// Whether replicas wait for each other at every microbatch or once a step.
[[nodiscard]] schedule::Meeting meeting_of(const mesh::Mesh& mesh,
                                           const config::ParallelSection& parallel);

/// Plans global batches ahead of the step, in the loader's thread, and keeps the plans until then.
class StepPlanner {
 public:
  /// `mesh` is that of the backbone; `edges` are those of encoders with meshes of their own;
  /// `times` are those of batch.costs; `beside` are the modalities of encoders beside the run.
  StepPlanner(const config::RunConfig& config, const config::ModelConfig& model,
              const mesh::Mesh& mesh, std::span<const FeatureEdge> edges = {},
              std::shared_ptr<const MeasuredTimes> times = nullptr, ModalitySet beside = {});

  /// Which replica trains on each sample of the batch that begins with sample `first_index`, and
  /// who encodes its media.
  /// units: called by one thread, while another one calls take()
  struct Dealt {
    std::vector<std::int32_t> replica_of;            // [samples]
    std::vector<schedule::PackedBins> microbatches;  // [replicas] bins of samples of the batch
    DealtItems media;                                // empty where all encoders are inline
  };
  [[nodiscard]] Dealt plan(std::int64_t first_index, std::span<const SampleShape> shapes);
  /// Replaces samples of a batch whose shapes are others than planned: their replicas pack anew.
  /// Media stay on their seats, which have the rows of the whole sample; of a replaced sample,
  /// those that were not planned are on its first seat.
  void change(const std::map<std::int32_t, SampleShape>& changes, DealtMedia& media) const;
  /// Returns the plan of the batch that begins there, and forgets those before it.
  /// errors: Fault::kBug when that batch was not planned
  [[nodiscard]] PlannedStep take(std::int64_t first_index);

  /// Corrects costs by measured times; null without batch.correct_costs.
  [[nodiscard]] schedule::BatchCorrection* correction() const { return correction_.get(); }

 private:
  struct EncoderSeats {
    std::string encoder;
    ModalitySet takes;
    schedule::MediaSeats seats;
    std::int32_t chain = 0;  // of the model
  };

  void deal(DealtMedia& media) const;
  [[nodiscard]] schedule::MediaCost cost_of(const EncoderSeats& encoder,
                                            const schedule::KnownCosts* known) const;
  /// The loads to plan by.
  [[nodiscard]] std::vector<schedule::SampleLoad> correct(
      std::span<const schedule::SampleLoad> loads, std::span<const SampleShape> shapes,
      const schedule::KnownCosts& known) const;
  /// What the correction learns of encoders from a batch, and from how it would be dealt otherwise.
  [[nodiscard]] std::vector<schedule::EncoderBatch> list_encoded(
      const DealtMedia& used, const schedule::StepPlan& without) const;
  [[nodiscard]] schedule::StepPlan plan_by(std::span<const schedule::SampleLoad> loads) const;

  config::BatchSection batch_;
  config::ModelSection section_;
  config::ModelConfig model_;
  schedule::Meeting meeting_;
  std::int64_t replicas_;
  std::int64_t own_;
  std::shared_ptr<const MeasuredTimes> times_;  // null: FLOPs
  std::vector<EncoderSeats> encoders_;          // [edges]
  ModalitySet beside_;
  std::unique_ptr<schedule::BatchCorrection> correction_;
  std::mutex mutex_;  // guards planned_
  std::map<std::int64_t, PlannedStep> planned_;
};

}  // namespace tributary::train
