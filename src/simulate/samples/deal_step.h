#pragma once

#include <map>
#include <span>
#include <vector>

#include "schedule/step_plan.h"
#include "simulate/samples/deal_samples.h"

namespace tributary::simulate {

/// Makes the microbatches of a step from the sizes of its samples, as the trainer does: by
/// schedule::plan_step with the plan's `batch`, in as many microbatches as it takes.
///
/// owns: the loads of sizes that it has met; keeps references to what it is made of
class StepDealer {
 public:
  StepDealer(const config::Plan& plan, const schedule::Pipeline& pipeline,
             const cost::StageCosts& costs);

  /// What balancing compares: the FLOP of a training step's work on a sample, at 1 TFLOP/s, of the
  /// encoders and of the backbone. Unlike the trainer's count it takes all tokens for targets and
  /// leaves out what is recomputed.
  [[nodiscard]] schedule::SampleLoad load_of(const SampleSize& size);

  /// Which sample goes where.
  ///
  /// errors: Fault::kInput naming `batch.capacity_tokens` when a sample does not fit a microbatch
  [[nodiscard]] schedule::StepPlan plan(std::span<const SampleSize> samples);

  /// The microbatches that this makes, padded with idle ones to what all replicas run together. An
  /// encoder with as many replicas as the backbone encodes for the replica of the same number;
  /// else the samples of a round are dealt to its replicas.
  [[nodiscard]] StepShapes deal(std::span<const SampleSize> samples);
  /// The same where it is known which sample goes where.
  [[nodiscard]] StepShapes deal(std::span<const SampleSize> samples,
                                const schedule::StepPlan& step) const;

 private:
  [[nodiscard]] Nanoseconds time_of(const cost::MicrobatchShape& shape) const;

  const config::Plan& plan_;
  const schedule::Pipeline& pipeline_;
  const cost::StageCosts& costs_;
  std::map<SampleSize, schedule::SampleLoad> loads_;
};

/// A rank without samples keeps in step with one token.
[[nodiscard]] cost::MicrobatchShape idle_microbatch();

}  // namespace tributary::simulate
