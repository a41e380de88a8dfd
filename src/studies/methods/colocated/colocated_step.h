#pragma once

#include <algorithm>
#include <functional>
#include <vector>

#include "studies/methods/batch_runner.h"

namespace tributary::studies {

/// The backbone's own stages on all devices, and the encoder before, between or beside them.
class ColocatedStep {
 public:
  /// What the encoder takes of a round on the first stage.
  using EncoderCost =
      std::function<PassSeconds(const Buckets& buckets, std::int64_t replica, std::int64_t round)>;

  ColocatedStep(BatchRunner& runner, const Degrees& backbone, std::int64_t rounds)
      : runner_(runner), backbone_(backbone), rounds_(rounds) {}

  /// `encoder` by groups of `tp` ranks of the first stage, beside the backbone's layers.
  [[nodiscard]] double run_on_first_stage(std::size_t batch, Deal how, std::int64_t tp,
                                          const EncoderCost& encoder);
  /// What a round takes where every group of tp ranks encodes a microbatch of its own, as many at
  /// once as there are groups: forward with the first of them, backward each with its own.
  [[nodiscard]] PassSeconds encode_in_groups(const Buckets& buckets, std::int64_t replica,
                                             std::int64_t round, std::int64_t tp);

  /// Forward of all encoders, the pipeline, backward of all encoders; features exchanged between.
  [[nodiscard]] double run_in_phases(std::size_t batch);
  /// The same by encoders of `tp` ranks, with samples dealt anew for each of the modules over so
  /// many groups of the backbone's replicas, each of which has its samples as they come.
  [[nodiscard]] double run_in_balanced_phases(std::size_t batch, std::int64_t tp,
                                              std::int64_t groups, double limit);

  /// Encoder kernels in the idle time of the pipeline; what does not fit, and the features of the
  /// first round, come on top.
  [[nodiscard]] double run_in_bubbles(std::size_t batch, std::int64_t tp, Deal how);
  /// Each microbatch encoded by all ranks of its replica, tp of them each, between the passes of
  /// their stages.
  [[nodiscard]] double run_nested(std::size_t batch, std::int64_t tp, Deal how, double limit);

 private:
  /// `encoder`: how its copies lie, which deals by both loads ask for.
  [[nodiscard]] const Buckets& deal(std::size_t batch, Deal how,
                                    const Degrees& encoder = {}) const {
    return runner_.deal(batch, backbone_.dp, rounds_, how, encoder, backbone_);
  }
  [[nodiscard]] PassSeconds stage(const Buckets& buckets, int stage, std::int64_t replica,
                                  std::int64_t round) const;
  /// Of all stages and rounds of a replica: [pp, rounds].
  [[nodiscard]] std::vector<PassSeconds> times_of(const Buckets& buckets,
                                                  std::int64_t replica) const;
  /// The same of rounds with so many tokens.
  [[nodiscard]] std::vector<PassSeconds> times_of(std::span<const double> tokens) const;
  void add_busy(std::span<const PassSeconds> times);
  [[nodiscard]] double pipeline(std::span<const PassSeconds> times);
  /// All samples of a replica over the ranks that hold one copy of the backbone.
  [[nodiscard]] double phase(std::size_t batch, const Buckets& buckets, std::int64_t replica,
                             std::int64_t tp) const;
  /// On all ranks, tp of them each.
  [[nodiscard]] Degrees copies_of(std::int64_t tp) const {
    return {tp, 1, std::max<std::int64_t>(backbone_.devices() / tp, 1)};
  }
  /// Of the gradients of the backbone, and of the encoder over its copies.
  [[nodiscard]] double sync(const Degrees& copies) const;

  BatchRunner& runner_;
  Degrees backbone_;
  std::int64_t rounds_;
};

}  // namespace tributary::studies
