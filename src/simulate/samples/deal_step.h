#pragma once

#include <map>
#include <span>
#include <vector>

#include "schedule/step_plan.h"
#include "simulate/samples/deal_samples.h"

namespace tributary::simulate {

/// The problem that the trainer gives to schedule::plan_step, for samples of these loads.
[[nodiscard]] schedule::StepProblem step_problem(const config::Plan& plan,
                                                 std::span<const schedule::SampleLoad> loads);

/// Makes the microbatches of a step from its samples, as the trainer does: by schedule::plan_step
/// with the plan's `batch`, in as many microbatches as that needs. Where shapes of samples are
/// given in place of sizes, encoders with meshes of their own get single images and clips, by
/// ItemDealer.
///
/// owns: the loads of sizes seen so far; keeps references to its arguments
class StepDealer {
 public:
  StepDealer(const config::Plan& plan, const schedule::Pipeline& pipeline,
             const cost::StageCosts& costs);

  /// The load that balancing compares: FLOPs of training on a sample, at 1 TFLOP/s, of encoders and
  /// backbone. Unlike the trainer's count it takes all tokens as targets and ignores recompute.
  [[nodiscard]] schedule::SampleLoad load_of(const SampleSize& size);

  /// The bucket of each sample.
  ///
  /// errors: Fault::kInput naming `batch.capacity_tokens` when a sample does not fit a microbatch
  [[nodiscard]] schedule::StepPlan plan(std::span<const SampleSize> samples);

  /// The resulting microbatches, padded with idle ones to the number that all replicas run. An
  /// encoder with as many replicas as the backbone encodes for the replica of the same number;
  /// otherwise the samples of each microbatch index are dispatched to its replicas.
  [[nodiscard]] StepShapes deal(std::span<const SampleSize> samples);
  /// As above, with a given step plan.
  [[nodiscard]] StepShapes deal(std::span<const SampleSize> samples,
                                const schedule::StepPlan& step) const;
  [[nodiscard]] StepShapes deal(std::span<const SampleShape> samples);

 private:
  [[nodiscard]] Nanoseconds time_of(const cost::MicrobatchShape& shape) const;

  const config::Plan& plan_;
  const schedule::Pipeline& pipeline_;
  const cost::StageCosts& costs_;
  std::map<SampleSize, schedule::SampleLoad> loads_;
};

/// The microbatch of a rank without samples: one token.
[[nodiscard]] cost::MicrobatchShape idle_microbatch();

}  // namespace tributary::simulate
