#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "studies/methods/batch_runner.h"
#include "studies/methods/plan_space.h"

namespace tributary::studies {

/// A step with the backbone on all devices, and the encoder before, between or beside its stages.
class ColocatedStep {
 public:
  /// The time of the encoder for a round on the first stage.
  using EncoderCost =
      std::function<PassSeconds(const Buckets& buckets, std::int64_t replica, std::int64_t round)>;

  ColocatedStep(BatchRunner& runner, const Degrees& backbone, std::int64_t rounds)
      : runner_(runner), backbone_(backbone), rounds_(rounds) {}

  /// `encoder` runs in groups of `tp` ranks of the first stage, beside the backbone's layers.
  [[nodiscard]] double run_on_first_stage(std::size_t batch, Deal how, std::int64_t tp,
                                          const EncoderCost& encoder);
  /// The time of a round where every group of tp ranks encodes a microbatch of its own, all groups
  /// at once: the forward is counted with the first of them, each backward with its own.
  [[nodiscard]] PassSeconds encode_in_groups(const Buckets& buckets, std::int64_t replica,
                                             std::int64_t round, std::int64_t tp);

  /// All encoders forward, the pipeline, all encoders backward; features are exchanged between.
  [[nodiscard]] double run_in_phases(std::size_t batch);
  /// The same by encoders of `tp` ranks. Samples are dispatched again for each module, within
  /// `groups` groups of the backbone's replicas, each of which has its samples in order.
  [[nodiscard]] double run_in_balanced_phases(std::size_t batch, std::int64_t tp,
                                              std::int64_t groups, double limit);

  /// Encoder kernels run in the idle time of the pipeline. What does not fit, and the features of
  /// the first round, are added.
  [[nodiscard]] double run_in_bubbles(std::size_t batch, std::int64_t tp, Deal how);
  /// Each microbatch is encoded by all ranks of its replica, tp of them each, between their passes.
  [[nodiscard]] double run_nested(std::size_t batch, std::int64_t tp, Deal how, double limit);

 private:
  /// encoder: the layout of its copies, for dispatch by both loads
  [[nodiscard]] const Buckets& deal(std::size_t batch, Deal how,
                                    const Degrees& encoder = {}) const {
    return runner_.deal(batch, backbone_.dp, rounds_, how, encoder, backbone_);
  }
  [[nodiscard]] PassSeconds stage(const Buckets& buckets, int stage, std::int64_t replica,
                                  std::int64_t round) const;
  /// Times of all stages and rounds of a replica: [pp, rounds].
  [[nodiscard]] std::vector<PassSeconds> times_of(const Buckets& buckets,
                                                  std::int64_t replica) const;
  /// The same for rounds with these numbers of tokens.
  [[nodiscard]] std::vector<PassSeconds> times_of(std::span<const double> tokens) const;
  void add_busy(std::span<const PassSeconds> times);
  [[nodiscard]] double pipeline(std::span<const PassSeconds> times);
  /// Encodes all samples of a replica on the ranks that hold one copy of the backbone.
  [[nodiscard]] double phase(std::size_t batch, const Buckets& buckets, std::int64_t replica,
                             std::int64_t tp) const;
  /// Copies of the encoder on all ranks, tp ranks each.
  [[nodiscard]] Degrees copies_of(std::int64_t tp) const {
    return {tp, 1, std::max<std::int64_t>(backbone_.devices() / tp, 1)};
  }
  /// Reduction of the backbone's gradients, and of the encoder's over its copies.
  [[nodiscard]] double sync(const Degrees& copies) const;

  BatchRunner& runner_;
  Degrees backbone_;
  std::int64_t rounds_;
};

/// Bytes of a rank that encodes `samples` samples at a time, besides the backbone's.
[[nodiscard]] double colocated_bytes(const TrainingProblem& problem, const Degrees& backbone,
                                     std::int64_t rounds, std::int64_t tp, double depth,
                                     double samples);

[[nodiscard]] std::string describe_colocated(const Degrees& backbone, std::int64_t rounds,
                                             std::int64_t tp);
/// The label of a plan in `best_of_methods`, where there are others beside it.
[[nodiscard]] std::string label_of(const char* where, Deal how);

/// Visits every plan of the backbone with every degree of the encoder, and a round's mean samples.
template <class Visit>
void for_each_colocated(const TrainingProblem& problem, const GivenDegrees& given,
                        BatchRunner& runner, Visit visit) {
  for_each_backbone(problem, [&](const Degrees& backbone, std::int64_t rounds) {
    if (!given.allow(backbone)) return;
    const double samples = double(problem.costs.global_samples) / double(rounds * backbone.dp);
    ColocatedStep step(runner, backbone, rounds);
    for (const DegreeCosts& degree : problem.costs.encoder.degrees)
      visit(step, backbone, rounds, degree.tp, samples);
  });
}

/// Solves for one family of plans without the others.
template <class Offer>
PipelineAnswer best_of(const TrainingProblem& problem, Offer offer) {
  BatchRunner runner(problem);
  BestPlan best(runner);
  offer(runner, best);
  return best.answer(form_of_backbone(problem) + ", tp or tp x pp a multiple of that of " +
                     problem.costs.encoder.name);
}

}  // namespace tributary::studies
